# Everything runs from .venv, which is made here. `make run` needs Python 3.11 or newer and make, nothing else.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# One thread per process: with more, numerical libraries fight over the cores.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help run test lint format unit engines-test cluster-test bench proto lock system-deps clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

run: .venv/run ## set up if needed, and run the demo: the whole system on this machine
	$(BIN)/headway demo $(ARGS)

test: lint unit ## set up if needed, then lint, types, architecture contract and all tests

lint: .venv/dev ## formatting, lint, types, architecture contract
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: .venv/dev ## all tests; ARGS are pytest's
	@command -v prometheus >/dev/null || echo "no prometheus on PATH: its tests are skipped (make system-deps)"
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup --quiet --ignore tests/cluster $(ARGS)

engines-test: .venv/dev ## a real Triton on the CPU under load; installs it into the user's cache once (55 MB)
	$(BIN)/python -m tests.engines.installation
	$(BIN)/python -m pytest --quiet tests/engines $(ARGS)

cluster-test: .venv/dev ## KEDA, the HPA and a control plane, all real; builds them into the user's cache once (45 min)
	$(BIN)/python -m tests.cluster.programs
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --quiet tests/cluster $(ARGS)

bench: .venv/dev ## accuracy and speed as ratios in one run; ARGS are the bench's
	$(BIN)/python -m tests.bench $(ARGS)

format: .venv/dev ## format, and mend what the linter can
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format --quiet .

proto: .venv/dev ## generate the code of KEDA's contract anew
	$(BIN)/python -m external_scaler_proto.regenerate

lock: .venv/dev ## resolve the dependencies anew into the two lock files
	$(BIN)/uv pip compile pyproject.toml $(LOCK) --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --constraint requirements.lock $(LOCK) --output-file requirements-dev.lock
LOCK := --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade --quiet --group build

system-deps: ## install Debian's prometheus, where apt and root are there
	@if command -v prometheus >/dev/null; then echo "prometheus is there"; \
	elif ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ]; then echo "no apt or not root: prometheus is not installed"; \
	else apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends prometheus >/dev/null; fi

clean: ## remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headway needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv .venv

.venv/run: .venv/bin/python requirements.lock pyproject.toml
	@echo "installing Headway into .venv (once)"
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

.venv/dev: .venv/run requirements-dev.lock
	@echo "installing the tools for tests into .venv (once)"
	$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@
