# The index of the project: `make run` and `make test` do all set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SERVER := $(BIN)/llama-server

.PHONY: run test server test-vllm bench shots lint types fix lock clean
run: $(READY)
	$(BIN)/forkpoint open --demo

test: lint types $(SERVER)
	$(BIN)/python -m pytest

# Against a real vLLM, which it installs into .venv-vllm: 2.4 GB, half an hour. Not part of `make test`.
test-vllm: $(READY)
	sh packaging/vllm.sh
	$(BIN)/python -m pytest -v -s tests/vllm/live_vllm.py tests/vllm/live_metrics.py

# llama-server of the same sources; the tests and "managed" runs use it.
server: $(SERVER)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m tests.bench

shots: $(READY)
	$(BIN)/forkpoint shots shots

fix: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# llama-cpp-python comes as source: its llama.cpp is compiled once, for the bindings and for llama-server.
$(READY): requirements.lock model.lock pyproject.toml packaging/install.sh
	PYTHON=$(PYTHON) VENV=$(VENV) sh packaging/install.sh
	touch $(READY)

$(SERVER): $(READY)
	VENV=$(VENV) sh packaging/install.sh server
	touch $(SERVER)

# Needs uv. Versions and hashes for Python 3.11 to 3.13 in one file, without the host they came from.
lock:
	uv pip compile pyproject.toml --group dev --group build --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header -o requirements.lock
	uv pip compile --group model --no-deps --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header -o model.lock

clean:
	rm -rf $(VENV) .venv-vllm build dist shots .mypy_cache .ruff_cache .pytest_cache
