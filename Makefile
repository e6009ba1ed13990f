# Every target sets up what it needs: a fresh clone needs nothing but Python 3.11 and make.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs
FUZZ_READY := $(VENV)/.fuzz
MERMAID_VERSION := 11.17.2
MERMAID := build/mermaid/package/dist/mermaid.min.js
RUN := $(BIN)/bench
RESULTS ?= results
REPORT := $(RESULTS)/report.html
# One folder for each processor, that of the published tables first; a full sweep of another one is made there by
# `make bench RESULTS=results/NAME WHOLE=1`.
PROCESSORS ?= results/reference results/zen4 results/zen5
# Time for measuring, and for all of a sweep: where preparing and verifying take long, cells that gain little are left out,
# and where that does not suffice, measuring gets less.
BUDGET ?= 12m
TOTAL ?= 28m
MINUTES ?= 10
SHARED := -n 2 --dist loadgroup --no-loadscope-reorder
TIMED := grep -rl --include='test_*.py' 'mark\.timing' tests
FAST := core onnxfile tasks features

$(READY): pyproject.toml constraints.txt bench/plugins/engines/node/package.json bench/plugins/engines/node/package-lock.json
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	if command -v npm > /dev/null; then $(BIN)/bench install npm \
	|| echo 'no runtime of Node.js is here, and sweeps have none; make install-all tries again'; fi
	touch $@

$(DOCS_READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	touch $@
$(FUZZ_READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[fuzz]'
	touch $@
$(MERMAID):  # draws the diagrams of the site; from its registry, for no package of Python's has it
	@command -v npm > /dev/null || { echo 'make docs needs npm, to take mermaid from its registry'; exit 1; }
	mkdir -p build/mermaid
	cd build/mermaid && npm pack --silent mermaid@$(MERMAID_VERSION) && tar xzf mermaid-*.tgz package/dist/mermaid.min.js package/LICENSE

# Compiled here, for where $PYTHONDONTWRITEBYTECODE is set, as in many containers, each of a sweep's processes would do it.
install: $(READY)  ## set up .venv with every framework, runtime and tool
	@$(BIN)/python -m compileall -q bench models datasets
install-all: install  ## also what needs an environment of its own: 2 GB
	$(BIN)/bench install --yes
bench: install  ## the full sweep, to tables and plots under results/; goes on where it was stopped
	$(RUN) run --budget $(BUDGET) --total $(TOTAL) $(if $(WHOLE),--whole-split) --results $(RESULTS)
	@test -f $(REPORT) && test -z "$$(find $(RESULTS) bench -newer $(REPORT) \( -name '*.jsonl' -o -name '*.py' -o -name '*.j2' -o -name '*.css' -o -name '*.js' \) -print -quit)" \
	|| { $(RUN) roofline --results $(RESULTS) --format md --output $(RESULTS)/roofline.md && \
	$(MAKE) --no-print-directory report; }
quick: install  ## a small sweep: the two frameworks and their plain exports, in about 75 seconds
	$(RUN) run --sweep quick --launches 3 --total 60s
test test-all test-core: export SESSION_CACHE := $(or $(SESSION_CACHE),$(CURDIR)/.cache/tests)
test: install  ## the tests: on two processes, and then those that measure time or threads by themselves
	@status=0; \
	$(BIN)/python -m pytest -m 'not thorough and not timing' $(SHARED) || status=1; \
	$(BIN)/python -m pytest -m 'not thorough and timing' $$($(TIMED)) || status=1; \
	echo 'make test-all runs the thorough tests, which are left out here'; exit $$status
test-all: install  ## the thorough tests, which make test leaves out: all combinations, fleets, kills, other Pythons
	@status=0; \
	$(BIN)/python -m pytest -m 'thorough and not timing' $(SHARED) || status=1; \
	$(BIN)/python -m pytest -m 'thorough and timing' $$($(TIMED)) || status=1; \
	exit $$status
test-core: install  ## the tests of the core, for every change
	$(BIN)/python -m pytest -m 'not thorough and not timing' $(SHARED) tests/core
test-fast: install  ## the unit tests that import no framework, in a minute
	$(BIN)/python -m pytest -m 'not framework and not timing and not thorough' $(SHARED) $(addprefix tests/,$(FAST)) --ignore tests/core/plugins
lint: install  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
report: install  ## the page, tables and plots from the stored results, without measuring
	$(RUN) show --results $(RESULTS) --format md --output $(RESULTS)/table.md
	$(RUN) show --results $(RESULTS) --format csv --output $(RESULTS)/table.csv
	$(RUN) plot --results $(RESULTS) --output $(RESULTS)/plots
	$(RUN) report --results $(RESULTS) --output $(RESULTS)/report.html
	$(RUN) best --results $(RESULTS)
readme: install  ## figures, outputs and pictures in both READMEs and the pages of questions, from the published results
	$(RUN) plot --results results/reference --output results/reference/plots
	$(RUN) best --results results/reference --into README.md
	$(RUN) best --results results/reference --into results/reference/README.md
	$(BIN)/python benchmarks/processors.py $(PROCESSORS) --into README.md
	$(RUN) roofline --results results/reference --format md --output results/reference/roofline.md
	$(BIN)/python benchmarks/published_tables.py
	$(BIN)/python docs/site/outputs.py
	$(BIN)/python docs/site/matrix.py
recording: install  ## the picture of a terminal in the README: runs a model, so on a quiet machine
	$(BIN)/python docs/pictures/recording.py
notebook: install  ## the outputs in the notebook, from the published results
	$(BIN)/python docs/notebooks/execute.py docs/notebooks/results.ipynb
schema: install  ## the schema of stored results, as JSON Schema and as a page of the docs
	$(BIN)/python -m bench.records.schema docs
docs: $(DOCS_READY) $(MERMAID)  ## the documentation site under build/site, which works without a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
fuzz: $(FUZZ_READY)  ## look for inputs that break a rule of docs/security.md: all targets, MINUTES=10 on two cores
	PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(MINUTES)
check: install  ## the regression guard: pinned artifacts against those of now, measured side by side
	$(BIN)/python -m pytest tests/regression --benchmark-enable --benchmark-autosave
instrument: install  ## measure the instrument itself: repeatability, false alarms, power, overhead, start-up
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/verdicts.py
	$(BIN)/python benchmarks/coverage.py
	$(BIN)/python benchmarks/metric_bounds.py
	$(BIN)/python benchmarks/repeatability.py
	$(BIN)/python benchmarks/guard.py
	$(BIN)/python benchmarks/kills.py
train: install  ## train the reference models again, from nothing
	for script in models/*/train.py; do $(BIN)/python $$script || exit 1; done
clean:  ## remove the environment and the caches; results stay
	rm -rf $(VENV) .cache build *.egg-info .mypy_cache .ruff_cache .pytest_cache .benchmarks
help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

.PHONY: install install-all bench quick test test-all test-core test-fast lint report readme recording notebook docs schema fuzz check instrument train clean help
