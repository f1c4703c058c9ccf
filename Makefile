# Everything a newcomer types. Each target makes the virtual environment first, if it is not there.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
READY   = $(VENV)/.ready

.PHONY: help demo test chromium slow check format bench results builtin-models docs-figures docs-api clean
help:  ## list these targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# torch comes first and pinned: the pin takes the small CPU build where an index offers one.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## train the built-in translator and open it in the studio (ARGS=--no-serve exits when done)
	$(BIN)/sightline demo $(ARGS)
	@echo "(sightline is in $(BIN): source $(BIN)/activate, once, and the commands above can be typed as they are)"

test: $(READY) chromium  ## run the tests
	$(BIN)/pytest -n 2 --dist worksteal

# The pages are tested in the system's browser; without one those tests say that they were skipped (with CI=true they fail).
chromium:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { \
	  echo "make: no Chromium found, installing Debian's: the tests of the pages open it"; \
	  as_root=; [ "$$(id -u)" = 0 ] || as_root="sudo -n"; \
	  { $$as_root apt-get update && $$as_root apt-get install -y chromium; } >/dev/null 2>&1 \
	  || echo "make: that failed; please install it: apt-get install chromium"; }

slow: $(READY)  ## run the long tests: timed and random campaigns, models that learn
	$(BIN)/pytest -m slow

check: $(READY)  ## check format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## training step and start-up beside the peers (run it alone on the machine)
	$(BIN)/sightline bench train --size tiny
	$(BIN)/sightline bench train --size base --rounds 5
	$(BIN)/sightline bench corpus
	$(BIN)/sightline bench startup

# Hours of training: the runs lie outside the work tree and go on where they were stopped.
DATA ?= ../shared/data
RUNS ?= $(HOME)/sightline-results
results: $(READY)  ## train what is in docs/results.md (ROW=name for one row, TRIAL='seed 2' for a part of it; DATA and RUNS are folders)
	PYTHONPATH=docs $(BIN)/python -m making.results $(ROW) --trial '$(TRIAL)' --data $(DATA) --runs $(RUNS)

MINUTES ?=
builtin-models: $(READY)  ## train the models that the package contains, and write them into it (some 80 minutes; MINUTES=N)
	PYTHONPATH=docs $(BIN)/python -m making.builtin_models --data $(DATA) --runs $(RUNS) $(if $(MINUTES),--minutes $(MINUTES))

# The documents follow the demo's model: a number in a sentence that is no longer true is named, and ends this with 1.
docs-figures: $(READY)  ## redraw docs/figures and the tables of docs/walkthrough.md from the demo's model
	$(BIN)/sightline demo --no-serve
	PYTHONPATH=docs $(BIN)/python -m making runs/demo

docs-api: $(READY)  ## write docs/api.md from the docstrings
	PYTHONPATH=docs $(BIN)/python -m making.api

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
