# Everything a contributor runs. `run`, `demo`, `test`, `check` and `bench` set up .venv themselves:
# they need python3 (3.11 or newer), make and a package index, nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip --disable-pip-version-check

SAM_VENV := .venv-sam
SAM := $(SAM_VENV)/bin/sam
E2E_VENV := .venv-e2e
CLIENTS := tests/clients
# Processes that share the tests. WORKERS= runs them one after another in one.
WORKERS ?= -n auto --maxprocesses 4 --dist worksteal
LOCK_VENV := .venv-lock
UV_VERSION := 0.13.9

# Folders are checked from the moment they exist.
CHECKED := $(wildcard layers functions tests bench examples)
TYPED := layers/runtime/perdure $(wildcard layers/agents functions tests bench examples)

# More arguments for pytest: make test ARGS="-k lease -x"
ARGS ?=
SWEEP ?=

.PHONY: help run demo test test-faults test-clients e2e e2e-stack check format bench permissions build deploy lock clean

help:
	@printf '%s\n' \
	  'make run      the development server: API and console on this machine' \
	  'make demo     one agent, start to finish, in the terminal' \
	  'make test     the tests (ARGS="-k name" for some of them)' \
	  'make test-faults  break the system at every point where it can break' \
  'make test-clients  real clients against a real server, cut at every frame (needs npm)' \
	  'make e2e      deploy what was built to an AWS on this machine, talk to it, break it, tear it down' \
	  'make e2e-stack  deploy there and keep it, to try things by hand' \
	  'make check    format, lint and types' \
	  'make format   rewrite the code as `make check` wants it' \
	  'make bench    measure, and write bench/results/' \
	  'make permissions  what functions use on AWS, what their roles allow, and the difference' \
	  'make build    build the Lambda functions and layers with SAM' \
	  'make deploy   deploy what was built' \
	  'make lock     write the pinned requirements anew from pyproject.toml' \
	  'make clean    remove what builds and tests left behind'

# --- set-up -----------------------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'perdure needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A changed lock installs again; otherwise the stamp makes this a no-op. The lock is complete, hence
# --no-deps: pip's own resolution stumbles over hashes together with extras.
$(VENV)/.dependencies: requirements/dev.txt | $(BIN)/python
	$(BIN)/python $(PIP) install --quiet --no-deps --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.dependencies
	$(BIN)/python $(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(SAM_VENV)/.installed: requirements/sam.txt
	$(PYTHON) -m venv $(SAM_VENV)
	$(SAM_VENV)/bin/python $(PIP) install --quiet --no-deps --require-hashes -r requirements/sam.txt
	@touch $@

$(LOCK_VENV)/.installed: Makefile
	$(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python $(PIP) install --quiet uv==$(UV_VERSION)
	@touch $@

# The clients and their own Node come from npm. It finds the Node that runs their tests in node_modules/node.
$(CLIENTS)/node_modules/.installed: $(CLIENTS)/package-lock.json
	@command -v npm >/dev/null || { echo 'make test-clients needs npm: install Node.js 20 or newer, which brings it' >&2; exit 1; }
	cd $(CLIENTS) && npm ci --loglevel=error
	@touch $@

# Puts the Python that Lambda runs on PATH, or fails and tells what to do.
WITH_LAMBDA_PYTHON = found="$$(command -v python3.13 || true)"; \
	if [ -z "$$found" ] || ! "$$found" --version >/dev/null 2>&1; then \
	  found="$$(ls -1 "$$HOME"/.pyenv/versions/3.13*/bin/python3.13 2>/dev/null | tail -n 1 || true)"; \
	fi; \
	if [ -z "$$found" ]; then \
	  echo 'make $@ needs python3.13, the Lambda runtime: put it on PATH (pyenv install 3.13)' >&2; exit 1; \
	fi; \
	export PATH="$$(dirname "$$found"):$$PATH" SAM_CLI_TELEMETRY=0

# The emulator runs functions with its own Python. `native` is the dependencies layer for this machine: the built one
# has machine code for arm64.
$(E2E_VENV)/.installed: requirements/e2e.txt layers/dependencies/requirements.txt
	@$(WITH_LAMBDA_PYTHON); set -x; \
	python3.13 -m venv --clear $(E2E_VENV); \
	$(E2E_VENV)/bin/python $(PIP) install --quiet --no-deps --require-hashes -r requirements/e2e.txt; \
	$(E2E_VENV)/bin/python $(PIP) install --quiet --no-deps --require-hashes --no-compile \
	  --target $(E2E_VENV)/native -r layers/dependencies/requirements.txt
	@touch $@

# --- every day --------------------------------------------------------------------------------

run: $(VENV)/.installed
	$(BIN)/perdure dev $(ARGS)

demo: $(VENV)/.installed
	$(BIN)/perdure demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest $(WORKERS) $(ARGS)

# The sweep of every fault, then the mutations, which the sweep has to notice. SWEEP="--scenario t1" for some of it, SWEEP=--deep for all.
test-faults: $(VENV)/.installed
	$(BIN)/python -m perdure.testing.simulation --load tests.audit.watching $(SWEEP)
	$(BIN)/python -m pytest -m faults $(ARGS)

# ARGS="--test-name-pattern=EventSource" for some of it.
test-clients: $(VENV)/.installed $(CLIENTS)/node_modules/.installed
	cd $(CLIENTS) && node_modules/node/bin/node --test --test-concurrency=2 --test-timeout=180000 $(ARGS)

check: $(VENV)/.installed
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy $(TYPED)

format: $(VENV)/.installed
	$(BIN)/ruff check --fix-only $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

bench: $(VENV)/.installed
	$(BIN)/python -m bench

permissions: $(VENV)/.installed
	$(BIN)/python -m pytest --permissions -q -m "not faults" tests/audit tests/handlers tests/field tests/faults/test_simulation.py

# --- AWS --------------------------------------------------------------------------------------

# SAM builds with the interpreter that Lambda runs, and looks for it on PATH. The layers ship their bytecode: SAM leaves it
# out, a container can't keep any, and compiling takes two thirds of its start. By hash, because zipping loses the times.
build: $(SAM_VENV)/.installed
	@$(WITH_LAMBDA_PYTHON); \
	set -x; \
	$(SAM_VENV)/bin/cfn-lint --include-checks I --regions "$${AWS_REGION:-us-east-1}" --template template.yaml; \
	$(SAM) validate --lint --region "$${AWS_REGION:-us-east-1}"; \
	$(SAM) build --region "$${AWS_REGION:-us-east-1}"; \
	for layer in RuntimeLayer DependenciesLayer AgentsLayer; do \
	  python3.13 -m compileall -q --invalidation-mode checked-hash -s "$(CURDIR)/.aws-sam/build/$$layer" -p /opt \
	    "$(CURDIR)/.aws-sam/build/$$layer/python"; \
	done

# Builds only when something has changed since. ARGS="-k socket" for some of it.
BUILT := .aws-sam/build/template.yaml
$(BUILT): template.yaml $(shell find functions layers -type f -not -name '*.pyc')
	$(MAKE) build
	@touch $@

# ARGS='-m e2e' adds the tours in which every call fails three times.
e2e: $(BUILT) $(VENV)/.installed $(E2E_VENV)/.installed
	$(BIN)/python -m pytest -m "e2e and not slow" tests/e2e $(ARGS)

e2e-stack: $(BUILT) $(VENV)/.installed $(E2E_VENV)/.installed
	$(BIN)/python -m tests.e2e

# Tags of the stack, which CloudFormation puts on everything in it that can have any.
TAGS ?= application=perdure

deploy: $(SAM_VENV)/.installed
	@[ -d .aws-sam/build ] || { echo 'nothing is built yet: run make build first' >&2; exit 1; }
	@if [ -f samconfig.toml ]; then \
	  SAM_CLI_TELEMETRY=0 $(SAM) deploy --tags $(TAGS); \
	else \
	  echo 'first deployment: SAM asks for a stack name and a region, and keeps the answers in samconfig.toml'; \
	  SAM_CLI_TELEMETRY=0 $(SAM) deploy --guided --tags $(TAGS); \
	fi

# --- upkeep -----------------------------------------------------------------------------------

COMPILE = $(LOCK_VENV)/bin/uv --quiet pip compile --universal --generate-hashes --upgrade \
  --no-header --no-emit-index-url --no-emit-find-links --no-config

lock: $(LOCK_VENV)/.installed
	$(COMPILE) --python-version 3.11 --all-extras --group dev pyproject.toml -o requirements/dev.txt
	$(COMPILE) --python-version 3.11 --group sam -o requirements/sam.txt
	$(COMPILE) --python-version 3.13 --group e2e -o requirements/e2e.txt
	$(COMPILE) --python-version 3.13 --group lambda -o layers/dependencies/requirements.txt

clean:
	rm -rf .aws-sam build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
