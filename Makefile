# Every target does its own set-up: Python 3.11 or later, make and a package index are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
# Two test processes of one thread each, instead of two that fight over the same cores.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-long test-all lint types layers clean help

help:
	@echo "make demo      fit, score and show sparse deep NMF on handwritten digits"
	@echo "make test      lint, types, layers and the tests"
	@echo "make test-all  the same with the long tests"

demo: $(VENV)/demo.stamp
	OMP_NUM_THREADS= OPENBLAS_NUM_THREADS= $(BIN)/deepnmf demo -o demo

test: lint types layers
	$(BIN)/pytest -n 2 -m "not long"

test-long: $(VENV)/dev.stamp
	$(BIN)/pytest -n 2 -m long

test-all: test test-long

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

layers: $(VENV)/dev.stamp
	$(BIN)/lint-imports

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[report]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/demo.stamp

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
