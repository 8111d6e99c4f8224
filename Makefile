# The words of this project. Each sets up what it needs.
PY := .venv/bin/python
QUESTION ?= What does heapq.merge do?

.PHONY: setup demo check docs site test test-pythons test-bubblewrap test-inspect test-ray test-model fuzz bench lock prices clean

setup:
	@./setup

# A real question over a real text that every machine has: the interpreter's own standard library.
# It needs a third of the packages that `make test` needs.
demo:
	@./setup demo
	.venv/bin/rlm ask "$(QUESTION)" "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
		--exclude site-packages --exclude dist-packages --exclude __pycache__

check: setup
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports
	$(PY) docs/site/build.py

# Rewrites what follows from the code: the reference, the output of the commands on the pages, the recorded run.
docs: setup
	$(PY) docs/site/reference.py
	$(PY) docs/site/outputs.py
	$(PY) docs/site/record.py

# The site, in build/site. It needs no network, neither to build nor to read.
site: setup
	$(PY) docs/site/build.py
	@echo "open build/site/index.html"

test: setup
	$(PY) -m pytest -n auto -m "not inspect and not ray and not model"

# The runs, the driver, the answers and the sandbox's host on each Python that is installed. Needs uv. It says which
# versions are missing; `PYTHONS="3.12" make test-pythons` tries some. Others may be named by a path.
test-pythons:
	@tests/each_python

# What depends on bubblewrap, with it: `make test` holds without, and RLM_BUBBLEWRAP=off hides one that is there.
test-bubblewrap: setup
	@command -v bwrap >/dev/null || { echo "make test-bubblewrap needs bubblewrap: sudo apt install bubblewrap" >&2; exit 2; }
	$(PY) -m pytest -n auto -rs tests/sandbox -k "bubblewrap or namespaces"

# The tests of the cluster engine, in an environment that has Ray: `make test` leaves them out.
test-ray:
	@./setup ray
	.venv-ray/bin/python -m pytest -m ray tests/e2e

# The solver for Inspect and the tasks of benchmarks/quality, in an environment that has it. Its packages warn.
test-inspect:
	@./setup inspect
	.venv-inspect/bin/python -m pytest -m inspect -W default tests/rlm/integrations tests/benchmarks/quality

# A real model of 135 M parameters behind a real llama.cpp server. The first time builds the server (minutes).
test-model: setup
	@./setup model
	RLM_MODEL_PYTHON=$(CURDIR)/.venv-model/bin/python $(PY) -m pytest -m model -p no:xdist -s tests/model

# Ten minutes of hostile cells, kernels and model servers, with a new seed. `make test` does 20 seconds.
fuzz: setup
	RLM_FUZZ_SECONDS=$${RLM_FUZZ_SECONDS:-600} RLM_FUZZ_SEED=$${RLM_FUZZ_SEED:-$$(date +%s)} \
		$(PY) -m pytest tests/fuzz -p no:xdist -s

bench: setup
	@mkdir -p build
	$(PY) -m pytest benchmarks/micro -p no:xdist --benchmark-columns=min,median,max,rounds --benchmark-sort=name \
		--benchmark-json=build/benchmarks.json

# Rewrites the table of prices from the installed genai-prices.
prices: setup
	$(PY) -m tests.provider_shapes.price_table

# Rewrites the lock files (needs uv). They hold hashes and no addresses.
LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links pyproject.toml
lock:
	$(LOCK) --extra dev -o requirements/dev.lock
	$(LOCK) -c requirements/dev.lock -o requirements/base.lock
	printf 'hatchling\neditables\n' | $(LOCK:pyproject.toml=-) -c requirements/dev.lock -o requirements/build.lock
	$(LOCK) --extra ray -c requirements/dev.lock -o requirements/ray.lock
	printf 'editables\nhatchling\nhypothesis\npytest\npytest-asyncio\npytest-timeout\n' | $(LOCK) - --extra inspect -o requirements/inspect.lock

clean:
	rm -rf .venv .venv-inspect .venv-ray .venv-model .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks dist build
