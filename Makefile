# Two commands matter: `make demo` and `make test`. Both make the virtual environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: help demo test test-core test-parts test-cases test-launch test-slow test-sglang test-sglang-slow sglang clients test-clients test-clients-sglang bench-agreement test-deploy test-dashboards dashboards panels test-page soak check format clean bench replay-goals policy-plots

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "spec-router needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.installed ## two simulated engines, the router, a load that rises and falls
	$(BIN)/spec-router demo

test: test-core test-parts test-cases test-launch ## all tests that fit into minutes

test-core: $(VENV)/.installed ## the pure core: unit and property tests, every branch covered
	$(PYTEST) tests/unit/core tests/property --cov=router.core --cov-branch --cov-report=term:skip-covered --cov-fail-under=100

test-parts: $(VENV)/.installed ## everything else in process: units, integration, the engines' contract
	$(PYTEST) tests/unit tests/integration tests/contract --ignore=tests/unit/core -m "not slow and not sglang"

test-cases: $(VENV)/.installed ## fault cases against a router process, on sockets
	$(PYTEST) tests/cases tests/fuzz -m "not slow" --ignore-glob='tests/cases/test_b3[345]*'

test-launch: $(VENV)/.installed ## the launcher's fault cases, on a fake engine and a fake GPU
	$(PYTEST) tests/cases/test_b33_*.py tests/cases/test_b34_*.py tests/cases/test_b35_*.py -m "not slow"

test-slow: $(VENV)/.installed ## what takes too long for every change
	$(PYTEST) tests -m "slow and not sglang"

sglang: $(VENV)/.installed ## a real SGLang for CPUs and tiny models, outside the clone (CPython 3.11, x86_64; 3 GB)
	$(BIN)/python tests/sglang_cpu/install.py

test-sglang: sglang ## the engines' contract and the router against two real engines, one with EAGLE-3
	$(PYTEST) tests/contract -m "sglang and not slow"

test-sglang-slow: sglang ## two minutes of leaving clients between real engines
	$(PYTEST) tests/contract -m "sglang and slow"

clients: $(VENV)/.installed ## foreign clients, outside the clone (500 MB; npm for those on Node)
	$(BIN)/python tests/clients/install.py

test-clients: clients ## SDKs, curl and a load generator that nobody here wrote, direct and through the router
	$(PYTEST) tests/clients -m "not sglang"

test-clients-sglang: clients sglang ## the same SDKs and curl, between real engines
	$(PYTEST) tests/clients -m "sglang"

bench-agreement: clients sglang ## spec-router bench and SGLang's own generator on a real SGLang for CPUs, side by side (minutes)
	$(BIN)/python -m tests.clients.agreement

replay-goals: $(VENV)/.installed ## what the calibrated policy promises, measured in virtual time (ARGS=--quick: a minute)
	$(BIN)/python -m router.replay.goals $(ARGS)

policy-plots: $(VENV)/.installed ## the pictures of docs/policy.md; installs matplotlib
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'matplotlib>=3.9'
	$(BIN)/python -m router.replay.pictures docs/pictures

bench: $(VENV)/.installed ## the data path beside a router in Rust; needs cc, taskset and two cores (ARGS=--quick: a minute)
	$(BIN)/python -m bench.dataplane $(ARGS)

$(VENV)/deploy/.installed: tests/deploy/requirements.txt
	$(PYTHON) -m venv $(VENV)/deploy
	$(VENV)/deploy/bin/python -m pip install --quiet --disable-pip-version-check -r tests/deploy/requirements.txt
	@touch $@

test-deploy: $(VENV)/.installed $(VENV)/deploy/.installed ## compose files, and their services as processes (root; Debian: iproute2 prometheus tini)
	$(PYTEST) tests/deploy -m "not slow"

test-dashboards: $(VENV)/.installed ## every panel query and alert against a real Prometheus (Debian: prometheus)
	$(PYTEST) tests/dashboards

$(VENV)/.page: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check playwright
	@touch $@

test-page: $(VENV)/.page ## the live page in headless Chromium (Debian: chromium)
	$(PYTEST) tests/page

$(VENV)/.dashboards: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'grafana-foundation-sdk==1769699379!11.6.0'
	@touch $@

dashboards: $(VENV)/.dashboards ## write the dashboards' JSON from deploy/grafana/panels.py
	$(BIN)/python deploy/grafana/dashboards.py

panels: $(VENV)/.page ## pictures of dashboards and live page under load, into docs/pictures (npm, prometheus, chromium; 430 MB)
	$(BIN)/python -m tests.dashboards.pictures

soak: $(VENV)/.installed ## MINUTES (5) of leaving clients, dying engines and reloads; all accounts must end at zero
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),5)

check: $(VENV)/.installed ## formatting, lint, types, import order, shipped configuration
	$(BIN)/ruff format --check router tests
	$(BIN)/ruff check router tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/spec-router check -c config.yaml > /dev/null
	for name in router single demo; do $(BIN)/spec-router check -c deploy/config/$$name.yaml > /dev/null || exit; done
	if [ -e $(VENV)/deploy/.installed ]; then $(PYTEST) -q tests/deploy/test_compose.py; fi # where its tools are

format: $(VENV)/.installed ## put the sources into shape
	$(BIN)/ruff format router tests
	$(BIN)/ruff check --fix router tests

clean: ## remove what was made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
