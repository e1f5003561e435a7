# Everything runs in .venv, which `make install` creates with uv.
.DEFAULT_GOAL := help
.PHONY: help install console run demo test check lint format lock bench lighthouse chaos ha missions-chaos mutants sbom audit screenshots clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

install: $(STAMP)  ## Create .venv with the pinned dependencies

$(STAMP): requirements.lock pyproject.toml
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV)
	@touch $(STAMP)

console: install  ## Build the web console if its sources have changed
	@$(BIN)/python scripts/console.py

run: console  ## Start everything with the demo, until Ctrl-C
	@$(BIN)/regente up --demo

demo: console  ## Run the demo and exit
	@$(BIN)/regente demo

test: console  ## Run all tests, browser tests included
	@$(BIN)/python scripts/chromium.py
	@$(BIN)/python scripts/promtool.py
	@$(BIN)/python scripts/console.py --test
	@$(BIN)/python -m pytest -n $(or $(JOBS),3)

check: install lint  ## Check lint, types, import contracts and generated files
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_tree.py
	@$(BIN)/python scripts/requirements.py
	@$(BIN)/python scripts/deviations.py
	@$(BIN)/python scripts/openapi.py
	@$(BIN)/python scripts/console.py --check

lint: install  ## Check style and formatting: ruff, Biome
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python scripts/console.py --lint

format: install  ## Fix style and formatting
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	@$(BIN)/python scripts/console.py --format

lock: install  ## Update the pinned dependencies
	@sh scripts/lock.sh $(VENV)

bench: install  ## Compare with peers in one run (ARGS="--quick" for a short one)
	@$(BIN)/python -m benchmarks $(ARGS)

lighthouse: console  ## Measure the console's Lighthouse scores (at least 95 and 100) and its delay (at most 1 s)
	@$(BIN)/python scripts/chromium.py
	@$(BIN)/python -m benchmarks.console $(ARGS)

chaos: install  ## Run the engine under faults: SEED=1 TASKS=100000 KILLS=50
	@$(BIN)/python -m tests.engine.faults.chaos --seed $(or $(SEED),1) --tasks $(or $(TASKS),100000) --kills $(or $(KILLS),50)

ha: install  ## Run the engine on a cluster that fails over: SEED=1 TASKS=20000 FAILOVERS=5 KILLS=20
	@$(BIN)/python -m tests.engine.faults.ha --seed $(or $(SEED),1) --tasks $(or $(TASKS),20000) \
		--failovers $(or $(FAILOVERS),5) --kills $(or $(KILLS),20)

missions-chaos: install  ## Run missions under faults: SEED=1 MISSIONS=300 RUNNERS=3 KILLS=20
	@$(BIN)/python -m tests.pipelines.missions.faults --seed $(or $(SEED),1) --missions $(or $(MISSIONS),300) \
		--runners $(or $(RUNNERS),3) --kills $(or $(KILLS),20)

screenshots: console  ## Take screenshots of every page in both languages and themes
	@$(BIN)/python scripts/chromium.py
	@$(BIN)/python scripts/screenshots.py

mutants: install  ## Remove one guard at a time; the tests must fail each time
	@$(BIN)/python -m pytest tests/mutants -m mutants

sbom: console  ## Write lists of all parts (CycloneDX) to build/sbom
	@$(BIN)/python scripts/supply_chain.py sbom

audit: console  ## Ask the databases of PyPI and npm for known holes in the parts
	@$(BIN)/python scripts/supply_chain.py audit

clean:  ## Remove everything that was installed and built
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache benchmarks/.envs benchmarks/lighthouse/node_modules tests/api/oidc/provider/node_modules console/node_modules node_modules src/regente/console/static
