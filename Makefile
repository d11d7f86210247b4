# The words of this project. Each one sets up what it needs; `make help` lists them.

PYTHON ?= python3
KILLS  ?= 1000
CODE   := $(wildcard src twins tests tools benchmarks examples)

hash   = $(shell cksum < requirements/$(1).lock 2>/dev/null | cut -d' ' -f1)
DEV   := .venv/.stamp-dev-$(call hash,dev)
RUN   := .venv/.stamp-runtime-$(call hash,runtime)
BENCH := .venv-bench/.stamp-bench-$(call hash,bench)
READY := .venv/.stamp-editable

# Commands that run from runtime.lock or bench.lock alone find the package without installing it.
FROM_SOURCE := PYTHONPATH="$(CURDIR)/src"
UV := $(shell command -v uv 2>/dev/null)
PIP := -m pip --disable-pip-version-check -qq

.DEFAULT_GOAL := help
.PHONY: help demo test smoke check bench crash conformance lock clean

help: ## list these words
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(if $(wildcard $(DEV)),,$(RUN)) ## run the demo (installs only what the runtime needs)
	@$(FROM_SOURCE) .venv/bin/python examples/demo.py

test: $(READY) ## run the tests, in parallel
	@.venv/bin/pytest -n auto -q

smoke: $(READY) ## ask the real services whose keys are set (costs a cent or two)
	@HOLON_SMOKE=1 .venv/bin/pytest -q -rs tests/smoke

check: $(READY) ## lint, format, types and the order of the rooms
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy $(CODE)
	@.venv/bin/lint-imports

ifdef WITH_LANGGRAPH
bench: $(BENCH) ## measure; WITH_LANGGRAPH=1 adds langgraph as a baseline
	@$(FROM_SOURCE) .venv-bench/bin/python -m benchmarks
else
bench: $(READY)
	@.venv/bin/python -m benchmarks
endif

crash: $(READY) ## kill the runtime at 1000 instants and check what is left (KILLS=n)
	@.venv/bin/python -m tests.crash --kills $(KILLS)

conformance: ## which requirements the tests show
	@$(PYTHON) tools/conformance.py

# dev.lock comes first: the others are held to its versions, so that all three agree.
COMPILE = uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --quiet $(if $(UPGRADE),--upgrade)

lock: ## write the lock files again (UPGRADE=1 takes newer versions); needs uv
	@command -v uv >/dev/null || { echo "make lock needs uv: install it with 'pip install uv'" >&2; exit 1; }
	@$(COMPILE) --extra dev -o requirements/dev.lock
	@$(COMPILE) -c requirements/dev.lock -o requirements/runtime.lock
	@$(COMPILE) -c requirements/dev.lock --extra bench -o requirements/bench.lock
	@! grep -nE '://|--(extra-)?index|--find-links' requirements/*.lock

clean: ## remove the environments and all caches
	@rm -rf .venv .venv-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# install(folder, lock, stamp, seconds): a virtual environment with exactly what the lock file names.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "holon needs Python 3.11 or newer: try 'make PYTHON=python3.12 ...'" >&2; exit 1; }
	@printf 'setting up $(1) (about $(4) s, once) ... '
	@$(PYTHON) -m venv $(1)
	@$(if $(UV),uv pip sync -q --require-hashes --python $(1)/bin/python $(2),\
		$(1)/bin/python $(PIP) install --require-hashes -r $(2))
	@rm -f $(1)/.stamp-* && touch $(3)
	@echo done
endef

$(DEV):
	$(call install,.venv,requirements/dev.lock,$@,40)

$(RUN):
	$(call install,.venv,requirements/runtime.lock,$@,20)

$(BENCH):
	$(call install,.venv-bench,requirements/bench.lock,$@,30)

$(READY): $(DEV) pyproject.toml
	@$(if $(UV),uv pip install -q --python .venv/bin/python,.venv/bin/python $(PIP) install) \
		--no-deps --no-build-isolation -e .
	@touch $@
