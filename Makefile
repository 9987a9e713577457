# Two commands do all the set-up: `make demo` and `make test`. They need python3 (3.11 or newer) and make, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One worker a core, two at least: many tests wait for the simulated cluster rather than compute.
WORKERS ?= 3

.PHONY: help demo test check lint types imports bench localisation mutate clean-venv

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("gpuproof needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "torch" "numpy"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[sim,dev]'
	@touch $@

demo: $(STAMP) ## the whole suite on the embedded simulated cluster, with a report
	$(BIN)/gpuproof run --profile thresholds/simulated.toml --cluster sim

# A test that fails beside others, on a busy machine, is looked at once more, alone and on a fresh cluster. What fails
# there is red; what passes there is printed by the first run and is worth a look. Other exit codes are red at once.
test: $(STAMP) ## the project's own tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal || { [ $$? -eq 1 ] && \
		echo "== once more, alone: the tests that failed ==" && \
		$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -n 0 -v; }

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

check: lint types imports test ## what CI runs

bench: $(STAMP) ## performance, measured: requests, bytes, seconds
	$(BIN)/python -m tests.bench

localisation: $(STAMP) ## who is to blame for a slow all-reduce: the planner against simulated fabrics
	$(BIN)/python -m tests.localisation

faults: $(STAMP) ## every fault, in groups where it can be, caught by the checks it names
	$(BIN)/python -m pytest tests/e2e/test_faults.py tests/e2e/test_node_lost.py tests/e2e/test_training_owners.py -m "every_fault or not every_fault" -n $(WORKERS) --dist worksteal

pictures: $(STAMP) ## the docs' pictures and the example: make pictures ACCEPTED=… REJECTED=… UNDECIDED=…
	$(BIN)/python -m tests.pictures $(ACCEPTED) $(REJECTED) $(UNDECIDED)

mutate: $(STAMP) ## mutation tests of the judging
	$(BIN)/python -m tests.mutation

clean-venv:
	rm -rf $(VENV)
