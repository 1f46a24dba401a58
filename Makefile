# make run | play | demo | docs | test | test-all | lint | bench | soak | fuzz: each sets up .venv by itself, once.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
READY := .venv/.ready
ORT := onnxruntime-web@1.30.0
ORT_FILE := build/$(subst @,-,$(ORT)).tgz

.PHONY: run play demo docs test test-all lint bench soak fuzz clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv (once)"
	@$(PYTHON) -m venv .venv
	@$(PIP_INSTALL) torch
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $(READY)

run: $(READY) ## train the quick recipe on MNIST from scratch and test it
	@$(BIN)/capsnet train mnist --recipe quick --out runs/quick-$$(date +%Y%m%d-%H%M%S)

play: $(READY) ## draw digits in the browser
	@$(BIN)/capsnet serve --open

$(ORT_FILE):
	@mkdir -p build
	@npm pack --silent --pack-destination build $(ORT) >/dev/null

build/demo/card.json: $(READY) $(ORT_FILE) $(wildcard src/capsnet/serve/static/* src/capsnet/serve/web.py)
	@rm -rf build/demo
	@$(BIN)/capsnet export efficient_capsnet.mnist --format web --runtime $(ORT_FILE) --out build/demo

demo: build/demo/card.json ## the playground as plain files, without a server of its own (needs npm, once)
	@(sleep 1; $(BIN)/python -m webbrowser -t http://127.0.0.1:8001/ >/dev/null) &
	@$(BIN)/python -m http.server 8001 --bind 127.0.0.1 --directory build/demo

docs: $(READY) ## the site, in build/site; a warning, such as a broken link, is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is build/site/index.html"

# Two processes of one thread each: more threads than cores would slow both down.
test: lint ## lint, types and the default tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

test-all: lint ## the slow tests too
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(READY) ## the machine must be idle: see benchmarks/README.md
	$(BIN)/python benchmarks/routing.py
	$(BIN)/python benchmarks/train_speed.py
	$(BIN)/python benchmarks/serve.py

soak: $(READY) ## faults in figures, for MINUTES (30): see docs/reliability.md
	OMP_NUM_THREADS=1 $(BIN)/python -m soak --minutes $(or $(MINUTES),30)
	$(BIN)/python docs/fill_tables.py

fuzz: $(READY) ## coverage-guided, for MINUTES (30), with atheris, which nothing else needs
	@$(PIP_INSTALL) atheris
	OMP_NUM_THREADS=1 $(BIN)/python -m soak.fuzz --minutes $(or $(MINUTES),30)
	$(BIN)/python docs/fill_tables.py

clean:
	rm -rf .venv dist build
