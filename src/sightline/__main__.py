"""`python -m sightline`: the same program as the command."""

from sightline.cli.main import main

raise SystemExit(main())
