# Two commands for a newcomer: `make demo` and `make test`. Both set the machine up first.
SHELL := /bin/bash
# The kernel's tools are in sbin, which a bare environment or an ordinary user's may lack.
export PATH := $(if $(PATH),$(PATH):)/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
PY := .venv/bin/python
AREA ?=
# A part of the tests: of one lane, of one path, or of both.
LANE ?=
ONLY ?=
# Processes that run the tests beside each other, each in namespaces of its own.
WORKERS ?= 4
# Also where writing bytecode is switched off: without it, every worker compiles all tests again.
test soak unit: export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test soak check lint types layers unit bench dist docs fmt clean

help:
	@echo "make demo     attach containers, kill the agent, and show that nothing is lost"
	@echo "make test     every test lane this machine can run, shared by four workers (WORKERS=1 for one)"
	@echo "              LANE=kernel for one lane, ONLY=tests/agent for one path, or both"
	@echo "make soak     the tests that make test runs shorter, whole: some minutes"
	@echo "make check    lint, types, layers, unit lane without its slow tests: less than a minute"
	@echo "make bench    measure against real peers (AREA=agent, cni, kernel, operate or services for one)"
	@echo "make setup    install what the targets above need, and say what"
	@echo "make dist     build the wheel, with the plugin in it, and the source archive into dist/"
	@echo "make docs     bring the reference up to date, and build the site into build/site"
	@echo "make clean    remove what setup and the runs have built"

setup:
	@tools/setup

demo: setup
	@$(PY) -m demo

test: setup
	@$(PY) -m pytest $(if $(LANE)$(ONLY),,--every-lane) -n $(WORKERS) $(if $(LANE),-m '$(LANE)') $(ONLY)

# What `make test` runs shorter, whole.
soak: setup
	@$(PY) -m pytest --soak

# The unit lane waits a little now and then: the rest goes on beside it.
check: setup
	@$(MAKE) --no-print-directory --output-sync -j2 unit types layers lint

lint:
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .

types:
	@.venv/bin/mypy

layers:
	@.venv/bin/lint-imports --no-logo

unit:
	@$(PY) -m pytest -m 'unit and not slow' -n 4 --hypothesis-profile=quick

bench: setup
	@$(PY) -m bench $(AREA)

# Without the setup of tests and benchmarks: a compiler and Python are enough.
dist:
	@tools/dist

# mkdocs-material would advertise its successor.
docs: setup
	@$(PY) -m tools.reference
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --clean
	@echo "build/site/index.html"

fmt: setup
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

clean:
	rm -rf .venv .peers netloom/_plugin build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
