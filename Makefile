# Two commands matter: `make chat` and `make test`. Both set up everything they need in .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# The GPU backend's packages, where an NVIDIA device answers.
CUDA := $(shell nvidia-smi -L >/dev/null 2>&1 && echo ,cuda)
# What `make gpu` needs, and its options, such as --quick.
GPU_PACKAGES := torch, triton, transformers, safetensors, pytest
GPU_OPTIONS ?=

.PHONY: help chat test check format gpu bench picture clean

help:
	@echo "make chat     set up and open the chat on the bundled starter model"
	@echo "make test     set up and run every check and every test, real models included"
	@echo "make check    the same without the real models: format, lint, types, imports, tests"
	@echo "make gpu      test and measure the kernels on an NVIDIA device, about five minutes"
	@echo "make bench    speed against the bare llama.cpp loop, as a table"
	@echo "make picture  draw the README's pictures again"

# Set up once, and again when the dependencies change.
$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.chat: $(VENV)/pyvenv.cfg pyproject.toml
	@echo "Setting up: llama.cpp is compiled the first time, which takes some minutes."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[starter$(CUDA)]"
	@touch $@

$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml
	@echo "Setting up: llama.cpp is compiled the first time, which takes some minutes."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[starter,dev]"
	@touch $@ $(VENV)/.chat

chat: $(VENV)/.chat
	$(BIN)/localchat

# Three workers also on two cores: many tests wait for something.
check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not model and not gpu" -n 3 --dist loadfile

# Everything of `check`, then the tests on real models.
test: check
	$(BIN)/python -m pytest -m "model and not gpu"

# With the packages that the machine has, where they suffice: it may have no network.
gpu:
	@nvidia-smi -L >/dev/null 2>&1 || { echo "make gpu: no NVIDIA device answers here"; exit 1; }
	@mkdir -p build
	@if $(PYTHON) -c "import $(GPU_PACKAGES); assert torch.cuda.is_available()" 2>/dev/null; then \
		$(PYTHON) -m tests.bench.gpu --json build/gpu.json $(GPU_OPTIONS); \
	else \
		$(MAKE) $(VENV)/.dev && \
		$(BIN)/python -m tests.bench.gpu --json build/gpu.json $(GPU_OPTIONS); \
	fi

bench: $(VENV)/.dev
	$(BIN)/localchat bench

picture: $(VENV)/.dev
	$(BIN)/python -m tests.bench.screenshot

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
