# Needs Python 3.11 or newer, git and make; everything else is set up in .venv by the first target that is made.
# PYTHON=python3.12 chooses another interpreter, ARGS passes options on: make replay ARGS="--format json".

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SAMPLE := traces/gemma4-chunked-prefill.yaml
EXPECT := MD101,MD402,MD404
ARGS ?=
comma := ,

# The pages are opened in a real Chromium where there is one; elsewhere those tests are skipped.
CHROMIUM := $(shell for name in chromium chromium-browser google-chrome chrome; do \
  command -v $$name && break; done)
EXTRAS := dev,torch$(if $(CHROMIUM),$(comma)browser)
# One version, so that a setting up is the same everywhere; TORCH=torch takes the newest.
TORCH ?= torch==2.13.0

# On a CPU the tiny models of the tests spend longer compiling kernels than running them.
export MLX_DISABLE_COMPILE ?= 1

.PHONY: replay test bench lint docs audit-docs clean
.DEFAULT_GOAL := test

replay: $(READY)
	$(BIN)/mlxdiag replay $(SAMPLE) --expect $(EXPECT) $(ARGS)

# And longer waking threads than using them.
test: export OMP_NUM_THREADS ?= 1
test: $(READY)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)

bench: $(READY)
	$(BIN)/python -m bench $(ARGS)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/mlxdiag rule --format markdown -o docs/rules.md --force

# 1 means that faults were found, which is what the page is about.
audit-docs: $(READY)
	$(BIN)/mlxdiag audit-models --scenario '*' --format markdown -o docs/audit-mlx-lm.md --force || test $$? -eq 1
	$(BIN)/mlxdiag audit-models --library transformers --scenario '*' --repros repros/transformers --format markdown \
	  -o docs/audit-transformers.md --force || test $$? -eq 1
	$(BIN)/mlxdiag audit-models --library mlx-lm,transformers --across-only --format markdown \
	  -o docs/across-libraries.md --force || test $$? -eq 1

clean:
	rm -rf $(VENV)

$(READY): pyproject.toml Makefile
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mlxdiag needs Python 3.11 or newer, not '$(PYTHON)': give one with PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@echo "setting up $(VENV), once" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)' --editable '.[$(EXTRAS)]'
	@$(BIN)/python -m compileall -q mlxdiag
	@touch $@
