# What one types in this checkout. Everything sets itself up first; `make` alone lists it all.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin

.PHONY: help setup heavy demo test quick lint types format fakes sim schedules soak bench clean

help:  ## this list
	@sed -nE 's/^([a-z%-]+):.*  ## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup:  ## .venv and build/models: all that the rest needs (quick when nothing has changed)
	@scripts/setup/all

heavy: setup  ## torch and paddlepaddle beside it, for the runtimes that need them (optional)
	@scripts/setup/heavy

demo: setup  ## the story on a real model: load on first use, free when idle, survive a kill
	@$(BIN)/python -m demo

example-%: setup  ## one of examples/, such as make example-ocr: it tells what it does
	@[ -e examples/$*/__main__.py ] || { echo "no example-$*: examples/README.md says which there are"; exit 2; }
	@$(BIN)/python -m examples.$*

# The same schedules each time: a change is judged by itself. `make quick` and `make sim` draw new ones.
test: lint types fakes  ## everything: formatting, lint, types, unit, simulation, integration, soak, a real GPU, systemd
	@echo "== tests"
	@SIM_SEED=$${SIM_SEED:-1} $(BIN)/pytest -n 4 tests/unit tests/sim tests/integration tests/soak tests/gpu tests/systemd

quick: lint types fakes  ## what one runs while writing: under a minute
	@echo "== unit tests and a short simulation"
	@SIM_EVENTS=10000 $(BIN)/pytest -q -n 2 tests/unit tests/sim

lint: setup  ## formatting and lint
	@echo "== formatting and lint"
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check . ; exit 1; }
	@$(BIN)/ruff check --quiet .

types: setup  ## strict types
	@echo "== types"
	@$(BIN)/mypy

format: setup  ## rewrites the code as the formatter wants it
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

fakes: setup  ## build/fakes: the stand-in for NVIDIA's driver that tests run on
	@$(BIN)/python tests/fakes/nvml/build.py

sim: setup  ## the simulation at full length: a million events (SIM_EVENTS=…)
	@SIM_EVENTS=$${SIM_EVENTS:-1000000} $(BIN)/pytest --timeout 1800 tests/sim

schedules: setup  ## 10,000 random schedules about memory through the core, summed up (SCHEDULES=… SIM_SEED=…)
	@nice $(BIN)/python -m tests.sim.schedules $${SCHEDULES:+--count $$SCHEDULES} $${SIM_SEED:+--base $$SIM_SEED}

soak: setup fakes  ## random schedules through real processes on the stand-in driver (SOAK_SCHEDULES=500 SOAK_SEED=…)
	@$(BIN)/python -m tests.soak --schedules $${SOAK_SCHEDULES:-500} $${SOAK_SEED:+--base $$SOAK_SEED}

bench: setup  ## our figures beside their floors: a table, and build/bench.json
	@$(BIN)/python -m tests.bench

clean:  ## removes what set-up, tests and benchmarks made
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# install, uninstall
-include install.mk
