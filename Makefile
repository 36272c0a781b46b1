# Every target does its own setup. It needs Python 3.11 or later, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
BENCH := .venv-bench
BENCH_PIP := $(BENCH)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt
DIST := .venv-dist
ALL_CORES := env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS
# Two test processes with one thread each, so that they do not compete for the cores.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: bench clean demo dist docs fuzz help layers lint test test-all test-long test-short types

help:
	@echo "make demo      fit and score a model on handwritten digits: demo/report.html"
	@echo "make test      lint, types, layers and the tests"
	@echo "make test-all  the same with the long tests"
	@echo "make fuzz      random hostile cases (FUZZ_MINUTES, FUZZ_CASES, FUZZ_SEED; FUZZ_CASE repeats one)"
	@echo "make docs      build the documentation: site/index.html"
	@echo "make dist      build and check the wheel and the sdist: dist/"
	@echo "make bench     compare the speed with other libraries (BENCH_OPTIONS=--quick: digits only)"

demo: $(VENV)/demo.stamp
	$(ALL_CORES) $(BIN)/deepnmf demo -o demo

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "written  site/index.html"

test: lint types layers test-short

test-short: $(VENV)/dev.stamp
	$(BIN)/pytest -n 2 -m "not long"

test-long: $(VENV)/dev.stamp
	$(BIN)/pytest -n 2 -m long

test-all: test test-long

# Hostile data, files, models, command lines and disks, until the minutes or the cases are used up.
FUZZ_MINUTES ?= 10
FUZZ_CASES ?= 20000
FUZZ_SEED ?= 0
FUZZ_CASE ?=
fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES) --cases $(FUZZ_CASES) --seed $(FUZZ_SEED) \
	  $(if $(FUZZ_CASE),--case $(FUZZ_CASE))

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

layers: $(VENV)/dev.stamp
	$(BIN)/lint-imports

# The wheel is built from the sdist, so a file that the sdist lacks is missing there too.
dist: $(DIST)/bin/pyproject-build
	rm -rf dist
	$(DIST)/bin/pyproject-build --outdir dist .
	$(DIST)/bin/python tools/check_dist.py dist
	@ls dist

$(DIST)/bin/pyproject-build:
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/pip install --quiet --disable-pip-version-check build
	@touch $@

# The peers have their own environment, so that they cannot disturb the main one.
bench: $(BENCH)/bench.stamp
	$(ALL_CORES) $(BENCH)/bin/python benchmarks/cpu.py $(BENCH_OPTIONS)
	$(ALL_CORES) $(BENCH)/bin/python benchmarks/deep.py

# Peers are installed one by one. If one fails, its name and pip's last line are shown.
$(BENCH)/bench.stamp: pyproject.toml constraints.txt benchmarks/requirements.txt
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH_PIP) -e '.[gpu]' threadpoolctl
	rm -f $(BENCH)/*.failed
	grep -v '^#' benchmarks/requirements.txt | while read -r peer; do \
	  note="$(BENCH)/$${peer%%=*}.failed"; \
	  if $(BENCH_PIP) "$$peer" 2>"$$note"; then rm -f "$$note"; \
	  else echo "$$peer: not installed, $$(tail -n 1 "$$note")"; fi; \
	done
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[report]'
	@touch $@

$(VENV)/docs.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/demo.stamp $(VENV)/docs.stamp

clean:
	rm -rf $(VENV) $(BENCH) $(DIST) demo dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
