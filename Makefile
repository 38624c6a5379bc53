# make run | test | check | docs | bench | arena | fuzz | kills: each sets up .venv from requirements.lock first, then does its job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Warnings are errors; all pages are run, whatever was built before, and new examples of the gallery.
SPHINX := $(BIN)/python -m sphinx -q -W -E --keep-going -b html docs out/docs
# One process a core; all tests of a file in the same one, since they share what is costly to make.
TEST := $(BIN)/python -m pytest -n auto --dist loadfile
# Processes that tests start find the code compiled, whatever the surroundings say.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: run test check types wheel docs format bench arena fuzz kills clean

run: $(STAMP)
	$(BIN)/exfam demo --out out

test: $(STAMP)
	$(TEST)

# What takes one core runs two at a time; the test suite comes last, so that its closing line ends
# the output.
check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --jobs 2 docs types wheel
	$(TEST) --check-raises

types: $(STAMP)
	$(BIN)/mypy

wheel: $(STAMP)
	.ci/check-wheel $(BIN)/python

docs: $(STAMP)
	$(SPHINX)
	@echo "out/docs/index.html"

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	@set -e; for file in $(sort $(wildcard benchmarks/*.py)); do echo "== $$file"; $(BIN)/python $$file; done
	$(BIN)/python -m benchmarks.requests

# ARENA="--only msweb --seeds 1" fits less.
arena: $(STAMP)
	$(BIN)/python -m benchmarks.arena $(ARENA)

# FUZZ="--minutes 60 --resume out/fuzz.json" goes on from earlier results.
fuzz: $(STAMP)
	$(BIN)/python -m fuzz $(FUZZ)

kills: $(STAMP)
	$(BIN)/python -m fuzz.kills $(KILLS)

$(STAMP): requirements.lock pyproject.toml studies/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "exfam needs Python 3.11 or newer, but '$(PYTHON)' is older or missing." >&2; \
		echo "Name another interpreter: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Installing into $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable . --editable studies
	@touch $@

clean:
	rm -rf $(VENV) build dist out docs/examples docs/api/generated .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
