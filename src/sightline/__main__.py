"""`python -m sightline`: the same program as the command."""

from sightline.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
