# What a contributor runs; `make` alone lists it. Needs python3 (3.11 or later), make and git, nothing else.
PYTHON ?= python3
JOBS ?= 3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base
READY := $(VENV)/.ready
# Overrides whatever the caller has set: an installation is the same everywhere.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
LOCK_TOOLS := pip==26.3 pip-tools==7.6.2

.PHONY: help setup demo demo-llm test retest lint check soak bench docs dist lock clean
help:
	@echo 'make demo    from a fresh clone to a result: set up, then the bundled tasks with their reference solutions'
	@echo 'make demo-llm  a real language model attempts a bundled task, without a key: a small one, served on this machine'
	@echo 'make test    set up and run all tests'
	@echo 'make retest  only the tests that failed last, one after the other'
	@echo 'make lint    format, lint, types, import directions'
	@echo 'make check   lint and test'
	@echo 'make soak    the long counts'
	@echo 'make bench   the measurements in benchmarks/, kept in benchmarks/output for the site'
	@echo 'make docs    the documentation as pages, in site/; `termarena docs` serves them'
	@echo 'make dist    sdist and wheel, in dist/, the same bytes for the same commit'
	@echo 'make setup   only set up .venv'
	@echo 'make lock    write requirements/*.txt anew after a change in pyproject.toml (UPGRADE=1: newest versions)'
	@echo 'make clean   remove .venv and the caches of the tools'

setup: $(READY)

# Two floors: what a run on the embedded sandbox needs (seconds), and everything that tests and servers need on top.
$(BASE): pyproject.toml requirements/base.txt requirements/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'error: $(PYTHON) is not Python 3.11 or later; name one: make PYTHON=python3.12 …' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo 'error: $(PYTHON) has no venv; on Debian or Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@echo "== making $(VENV) with $$($(PYTHON) --version)" >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@$(call install,base,-r requirements/build.txt)
	@echo '== installing termarena itself' >&2
	@$(BIN)/pip install --quiet --progress-bar off --no-deps --no-build-isolation -e .
	@touch $@

$(READY): $(BASE) requirements/dev.txt
	@$(call install,dev)
	@touch $@

# $(1): name of the lock file, $(2): more of them.
define install
echo "== installing $$(grep -c '==' requirements/$(1).txt) packages, versions and hashes as in requirements/$(1).txt" >&2; \
	$(BIN)/pip install --quiet --progress-bar off --require-hashes -r requirements/$(1).txt $(2)
endef

demo: $(BASE)
	@$(BIN)/termarena run --dataset samples --agent oracle
	@echo 'for the command itself: source $(BIN)/activate; everything beyond runs (proofs, forge, servers): make setup' >&2

demo-llm: $(READY)
	@started=$$(.ci/small-model start) || exit 1; eval "$$started"; trap '.ci/small-model stop' EXIT; \
		$(BIN)/termarena run --dataset samples --task hello-world --agent tools-text --examples builtin \
			--model "llamacpp:smollm2@$$TERMARENA_SMALL_MODEL" --temperature 0 --max-steps 3 --max-reply-tokens 200

test: $(READY)
	@$(BIN)/pytest --quiet -n $(JOBS) --dist worksteal; status=$$?; echo $$status >$(VENV)/.tested; exit $$status

retest: $(READY)
	@$(BIN)/pytest --quiet --last-failed --last-failed-no-failures none

lint: $(READY)
	@$(BIN)/ruff format --check --quiet . || { echo 'error: run $(BIN)/ruff format .' >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/pytest --quiet -p no:cacheprovider tests/test_imports.py

check: lint test

soak: $(READY)
	@TERMARENA_SOAK=1 $(BIN)/pytest --quiet --timeout 3600 -m soak

bench: $(READY)
	@missed=0; for script in benchmarks/*.py; do echo "== $$script" >&2; \
		$(BIN)/python scripts/measure.py "$$script" || [ $$? = 2 ] || missed=1; done; exit $$missed

docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo 'site/index.html; or: $(BIN)/termarena docs' >&2

# With the locked tools of $(VENV) instead of what an index offers today, and times that are the commit's.
dist: $(READY)
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir dist .

lock:
	@test -x $(VENV)/lock/bin/pip-compile || { $(PYTHON) -m venv $(VENV)/lock && \
		$(VENV)/lock/bin/pip install --quiet --progress-bar off $(LOCK_TOOLS); }
	@echo '== resolving (a minute or two)' >&2
	@$(call compile,dev,--extra dev)
	@$(call compile,all,--extra all --constraint requirements/dev.txt)
	@$(call compile,base,--constraint requirements/dev.txt)
	@$(call compile,build,--only-build-deps --build-deps-for editable --constraint requirements/dev.txt)

# $(1): name of the file, $(2): what it holds. Extras name termarena itself, which is never a requirement of its own;
# the remark that pip-compile leaves about that is dropped. No address of any index is written.
define compile
$(VENV)/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-header --no-annotate \
	--unsafe-package termarena --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
	$(if $(UPGRADE),--upgrade) $(2) --output-file requirements/$(1).txt pyproject.toml && \
	{ echo '# Written by `make lock` from pyproject.toml.'; sed -e '/^#/d' -e '/^$$/d' requirements/$(1).txt; } \
		> requirements/$(1).new && mv requirements/$(1).new requirements/$(1).txt
endef

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
