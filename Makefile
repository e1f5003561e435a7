# Everything runs in .venv, made by `make install` with uv; nothing else needs to be prepared.
.DEFAULT_GOAL := help
.PHONY: help install console run demo test check lint format lock bench lighthouse chaos missions-chaos mutants screenshots clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

help:  ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

install: $(STAMP)  ## Make .venv with every dependency, pinned

$(STAMP): requirements.lock pyproject.toml
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV)
	@touch $(STAMP)

console: install  ## Build the web console, when its sources have changed
	@$(BIN)/python scripts/console.py

run: console  ## Start everything, show the demo's progress, stay until Ctrl-C
	@$(BIN)/regente up --demo

demo: console  ## The same, and exit when the demo is done
	@$(BIN)/regente demo

test: console  ## All tests, the browser's too
	@$(BIN)/python scripts/chromium.py
	@$(BIN)/python scripts/console.py --test
	@$(BIN)/python -m pytest -n $(or $(JOBS),3)

check: install lint  ## What CI checks besides the tests: lint, types, import contracts, generated files
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_tree.py
	@$(BIN)/python scripts/requirements.py
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

lock: install  ## Pin the dependencies anew
	@sh scripts/lock.sh $(VENV)

bench: install  ## Measure beside the peers, in one run (ARGS="--quick" for a short one)
	@$(BIN)/python -m benchmarks $(ARGS)

lighthouse: console  ## The console's scores in Chromium, and how soon it shows what happens; fails below 95 and 100, or after 1 s
	@$(BIN)/python scripts/chromium.py
	@$(BIN)/python -m benchmarks.console $(ARGS)

chaos: install  ## Kill, pause and cut until something breaks: SEED=1 TASKS=100000 KILLS=50
	@$(BIN)/python -m tests.engine.faults.chaos --seed $(or $(SEED),1) --tasks $(or $(TASKS),100000) --kills $(or $(KILLS),50)

missions-chaos: install  ## The same for orchestrators of missions: SEED=1 MISSIONS=300 ORCHESTRATORS=3 KILLS=20
	@$(BIN)/python -m tests.pipelines.missions.faults --seed $(or $(SEED),1) --missions $(or $(MISSIONS),300) \
		--orchestrators $(or $(ORCHESTRATORS),3) --kills $(or $(KILLS),20)

screenshots: console  ## Every page of the console in both languages and themes; four of them for the README
	@$(BIN)/python scripts/chromium.py
	@$(BIN)/python scripts/screenshots.py

mutants: install  ## Take out one guard at a time; the suite must go red each time
	@$(BIN)/python -m pytest tests/mutants -m mutants

clean:  ## Remove what was installed and built
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache benchmarks/.envs benchmarks/lighthouse/node_modules console/node_modules src/regente/console/static
