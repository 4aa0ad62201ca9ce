# The same words for people and CI.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
MARKS ?= not browser
ROUNDS ?= 5

# processes of a run share what they compiled, and two workers do not ask for four threads
export PYTHONDONTWRITEBYTECODE :=
export OMP_NUM_THREADS ?= 1

.PHONY: setup check test test-fast slow mutants bench bench-browser fuzz faults lock lowest golden validation browser screenshots demo wheel-test clean

setup: $(STAMP)

# everything by digest first; then what another system or Python asks for beside it, by version alone; bytecode is made of
# what is imported, when it is
$(STAMP): pyproject.toml constraints.txt requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --no-compile --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -q --no-compile --no-build-isolation -c constraints.txt -e ".[real,llama,app,ray,test,dev]"
	touch $(STAMP)

demo: setup  ## recommend a configuration at published acceptance and from our recordings, and write engine files
	$(BIN)/rooftree optimize
	$(BIN)/rooftree optimize --model smollm2-135m --batch 1,8,64 --out rooftree-out/smollm2-135m

test: setup  ## the whole suite, two files at a time
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-fast: setup  ## for the loop at the desk: laws, replay, simulator and exporters, ten examples of every property
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q --fast

slow: setup  ## what takes minutes and has a smaller twin in the suite, and 200 examples of every property
	$(BIN)/python -m pytest -n $(WORKERS) -m slow
	HYPOTHESIS_PROFILE=many $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m hypothesis

mutants: setup  ## which seeded defects the fast, the whole and the slow suite find
	$(BIN)/python tests/mutants/study.py $(MUTANTS)

check: setup  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## speed, as ratios to a reference in the same run; only wrong results fail it
	ROOFTREE_BENCH_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/benchmarks --benchmark-only -s -m "$(MARKS)" \
	  --benchmark-min-rounds=$(ROUNDS)

bench-browser: setup  ## how soon a change shows in headless Chromium, beside Streamlit's smallest page
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only -s -m browser

CASES ?= 50000

fuzz: setup  ## mutated files and words into every reader, in a process with a limit on memory
	nice -n 10 $(BIN)/python tests/faults/fuzz.py --cases $(CASES) --out rooftree-out/fuzz

faults: setup  ## commands killed at twenty points each, disks that are full or read-only; minutes
	$(BIN)/python -m pytest tests/faults -n $(WORKERS) -m "faults or not faults"

lock: setup  ## requirements.lock and the software bill anew, after a change of pyproject.toml or constraints.txt
	sh .ci/lock $(BIN)/python

lowest: setup  ## the oldest releases that pyproject.toml allows, and the tests of what they can break
	sh .ci/lowest $(BIN)/python

golden: setup  ## which predictions moved against the committed ones, and which outputs of verbs changed
	$(BIN)/python tests/golden/regenerate.py
	PYTHONPATH=. $(BIN)/python tests/golden/regenerate_validation.py
	PYTHONPATH=. $(BIN)/python tests/golden/regenerate_outputs.py

validation: setup  ## VALIDATION.md of the committed results
	PYTHONPATH=. $(BIN)/python -m tests.validation_page.page

browser: setup  ## open the HTML report in headless Chromium
	$(BIN)/python -m pytest tests/browser -m "browser" --no-header

screenshots: setup  ## redraw the README's pictures of the dashboard
	$(BIN)/python tests/browser/screenshots.py

wheel-test: setup  ## what an installation can break, with a wheel and from outside the repository
	sh .ci/wheel-test $(BIN)/python

clean:
	rm -rf rooftree-out dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
