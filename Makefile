# One verb a line; every verb makes its own environment when there is none.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SHARED ?= ../shared
# In a process of their own, in one order: Ray ends its driver's process when its server is gone.
ENGINES := tests/executors/test_engines.py tests/executors/test_lambda.py
ENGINE ?= local

.PHONY: help demo figures test check bench docs dist sanitize fmt clean lock

help:  ## list the verbs
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

demo: $(READY)  ## the main job on real data; ENGINE=dask, ray or lithops; writes two pictures here
	$(BIN)/sooner demo --engine $(ENGINE)

CODING_TIMES := benchmarks/results/2026-11-30-figure-4.txt

figures: $(READY)  ## the papers' figures, in docs/figures; their times of coding as kept
	$(BIN)/sooner figures --out docs/figures --coding-times $(CODING_TIMES)

test: $(READY)  ## all tests, the docs' examples included
	$(BIN)/python -m pytest $(addprefix --ignore=,$(ENGINES))
	$(BIN)/python -m pytest -p no:randomly $(ENGINES)

check: $(READY)  ## format, lint, types, layers: what CI runs before the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## benchmarks; SHARED=folder with measured run times
	for script in benchmarks/*.py; do $(BIN)/python $$script --data $(SHARED)/data || exit 1; done

docs: $(READY)  ## run every example of the README and the documentation
	$(BIN)/python -m pytest tests/test_docs.py

dist: $(READY)  ## source distribution and wheel, in dist/; the wheel holds the compiled core
	rm -rf build dist
	$(BIN)/python -c "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"
	$(BIN)/python -m zipfile -l dist/*.whl | grep _core.abi3

sanitize: $(READY)  ## the core's tests under AddressSanitizer and UBSan, in a copy of the package
	CFLAGS="-g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all" \
		$(BIN)/python setup.py -q build --build-base build/sanitize --build-lib build/sanitize/lib
	test -f build/sanitize/lib/sooner/codes/_core.abi3.so
	LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so) $$($${CC:-cc} -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=build/sanitize/lib \
		$(BIN)/python -m pytest -p no:cacheprovider tests/codes/test_core.py

fmt: $(READY)  ## format and mend what can be mended mechanically
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and everything built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info

lock: $(READY)  ## pin requirements/dev.in again (needs uv: pip install uv)
	uv pip compile --no-emit-index-url --no-header --python-version 3.11 --all-extras \
		--output-file requirements/dev.txt --upgrade pyproject.toml requirements/dev.in

CORE := setup.py src/sooner/codes/_core.c src/sooner/codes/_core_tile.h

$(READY): requirements/dev.txt pyproject.toml $(CORE)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
