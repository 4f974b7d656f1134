# Each target sets up what it needs: a virtual environment in .venv, the build requirements, the
# compiled engine, and its own tools. Stamp files in .venv/.stamps remember what has been done;
# Python files are used where they lie (editable install), so that only C++ changes rebuild.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check --retries 5
# The build tools live in the environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)

CPP_FILES   := $(shell find cpp -name '*.cpp' -o -name '*.hpp')
BUILD_FILES := pyproject.toml CMakeLists.txt $(CPP_FILES)
PY_FILES    := $(shell find src -name '*.py' 2>/dev/null)
SANITIZE    := build/sanitize
PROSE       := README.md CONTRIBUTING.md docs src

# Tests run in several processes with one thread each: most tests are too small for threads, and those
# of threads ask for them by name.
WORKERS   ?= auto
PYTEST    := OPENBLAS_NUM_THREADS=1 MERCER_NUM_THREADS=1 $(BIN)/python -m pytest -q \
             -n $(WORKERS) --maxprocesses 8 --dist worksteal
# scikit-learn's checks of estimators compare no digits.
NUMERICAL := tests/linalg tests/rows tests/landmarks tests/solvers tests/models \
             -k "not scikit_learns_checks"

# The requirements of one table of pyproject.toml, one a line: the only list of versions.
define requirements
$(BIN)/python -c 'import tomllib; t = tomllib.load(open("pyproject.toml", "rb")); print(*t$(1), sep="\n")'
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: FORCE help demo test rounding bench lint docs sanitize format clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMPS)/build $(STAMPS)/extra-plot  ## what kernels do that linear models cannot, with a picture
	@$(BIN)/mercer demo

test: $(STAMPS)/build $(STAMPS)/extra-test  ## tests, docstring examples, README and docs code
	$(PYTEST)

# BLAS and the engine round differently with each instruction set. A test holds on all of them.
rounding: $(STAMPS)/build $(STAMPS)/extra-test  ## numerical tests with the instruction sets of other CPUs
	MERCER_CPU=baseline $(PYTEST) $(NUMERICAL)
	if [ "$$(uname -m)" = x86_64 ]; then OPENBLAS_CORETYPE=Nehalem $(PYTEST) $(NUMERICAL); fi
	if grep -qs avx512f /proc/cpuinfo; then OPENBLAS_CORETYPE=SkylakeX $(PYTEST) $(NUMERICAL); fi

bench: $(STAMPS)/build $(STAMPS)/extra-bench  ## race mercer against its peers
	$(BIN)/python -m benchmarks

lint: $(STAMPS)/build $(STAMPS)/extra-lint  ## ruff, mypy --strict, clang-format, numpydoc, prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)
	@$(BIN)/numpydoc lint $(PY_FILES)
	$(BIN)/python tools/prose.py $(PROSE)

docs: $(STAMPS)/build $(STAMPS)/extra-docs  ## build the documentation, warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

sanitize: $(STAMPS)/requirements  ## C++ tests under AddressSanitizer and UBSan
	$(BIN)/cmake -S . -B $(SANITIZE) -G Ninja -DMERCER_SANITIZE=ON
	$(BIN)/cmake --build $(SANITIZE)
	$(BIN)/ctest --test-dir $(SANITIZE) --output-on-failure --no-tests=error

format: $(STAMPS)/extra-lint  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

clean:  ## remove everything built, but keep .venv
	rm -rf build dist docs/_build docs/gallery docs/generated $(STAMPS)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------------------------------------
# Set-up

# A Debian Python may come without the venv module, and without the header files.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "mercer needs Python 3.11 or later: try  make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -f "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" \
	    || { echo "Python.h is missing, and the engine cannot be compiled without it: sudo apt install python3-dev"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
	    || { rm -rf $(VENV); $(PYTHON) -m virtualenv -q $(VENV) 2>/dev/null; } \
	    || virtualenv -q -p $(PYTHON) $(VENV) 2>/dev/null \
	    || { rm -rf $(VENV); \
	         echo "$(PYTHON) -m venv failed and virtualenv is not installed: sudo apt install python3-venv"; exit 1; }

$(STAMPS)/requirements: pyproject.toml | $(BIN)/python
	@mkdir -p $(STAMPS)
	@$(call requirements,["build-system"]["requires"]) > $@.txt
	@echo "Installing the build tools into $(VENV) ..."
	@$(PIP) install -r $@.txt
	@touch $@

$(STAMPS)/extra-%: pyproject.toml | $(BIN)/python
	@mkdir -p $(STAMPS)
	@$(call requirements,["project"]["optional-dependencies"]["$*"]) > $@.txt
	@echo "Installing what is needed for $* ..."
	@$(PIP) install -r $@.txt
	@touch $@

# A peer that cannot be installed beside the libraries that mercer uses is skipped by name in the races.
$(STAMPS)/extra-bench: pyproject.toml | $(BIN)/python
	@mkdir -p $(STAMPS)
	@$(call requirements,["project"]["optional-dependencies"]["bench"]) > $@.txt
	@$(PIP) freeze | grep -iE '^(numpy|scipy|pandas|scikit-learn)==' > $@.constraints; true
	@while read -r peer; do \
	    $(PIP) install -c $@.constraints "$$peer" || echo "$$peer could not be installed: left out of the races"; \
	done < $@.txt
	@touch $@

# The editable install knows every module by its file: install again when one comes, goes or moves.
$(STAMPS)/modules: FORCE | $(BIN)/python
	@mkdir -p $(STAMPS)
	@echo $(sort $(PY_FILES)) | cmp -s - $@ || echo $(sort $(PY_FILES)) > $@

# No build isolation: cmake's cache in build/ stays valid, and a rebuild compiles what changed. The
# stub is copied beside the sources, where mypy and editors look for it.
$(STAMPS)/build: $(STAMPS)/requirements $(STAMPS)/modules $(BUILD_FILES)
	@echo "Compiling the engine and installing mercer (the first time takes a minute or two) ..."
	@$(PIP) install --no-build-isolation --editable .
	@cp -f "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"/mercer/_core.pyi src/mercer/
	@touch $@
