# One door to the project; CI runs the same targets. Every target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help venv demo run test test-fast lint format type proto proto-check bench interop alerts clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

venv: $(STAMP) ## .venv with everything the daemon, client and tests need
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is %d.%d: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[daemon,dev]'
	@touch $@

demo: venv ## the main job, end to end, for real (KEEP=1 leaves the daemon running, OUT=DIR keeps the files)
	@KEEP='$(KEEP)' OUT='$(OUT)' $(BIN)/python -m deploy.demo

run: venv ## the daemon in the foreground, data in ./data
	@$(BIN)/ledgerd serve --data-dir data --set log_format=console

test: venv ## the whole suite, with coverage
	@$(BIN)/python tests/run.py

test-fast: venv ## without the crash loops
	@$(BIN)/python -m pytest -m 'not slow' -q

lint: venv ## style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: venv ## write the style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

type: venv ## mypy, strict
	@$(BIN)/mypy

proto: venv ## regenerate client/receiptledger/v1 from proto/
	@$(BIN)/python proto/generate.py

proto-check: venv ## fail when the committed stubs are stale
	@$(BIN)/python proto/generate.py --check

bench: venv ## figures of this machine, as ratios in one run
	@$(BIN)/python -m tests.bench

interop: venv ## foreign eyes: Go (x/mod sumdb, tessera, sigstore timestamp-authority) and Python peers
	@$(BIN)/python tests/interop/run.py

alerts: venv ## promtool checks of deploy/alerts
	@$(BIN)/python deploy/check_alerts.py

clean: ## everything that make made
	rm -rf $(VENV) .coverage .coverage.* htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis out dist
