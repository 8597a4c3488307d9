# Every target makes or refreshes .venv by itself. Another interpreter: make PYTHON=python3.12 book

PYTHON ?= python3
CHAPTERS = $(wildcard notebooks/*.md)

# Every path below is relative: in another folder, `make -f` would remove that folder's .venv.
ifneq ($(shell printf '%s\n' '$(subst ','\'',$(MAKEFILE_LIST))' | { read -r file; [ "$$file" -ef Makefile ] && [ ! -L Makefile ] && echo here; }),here)
  $(error make works in its own folder alone: call it there, or with -C and that folder instead of -f)
endif

.NOTPARALLEL: # book, notebooks and test share .venv and _build: under -j too they take turns
.PHONY: help venv book notebooks check test variants reproduce quick bench lint lock clean

help: ## list the targets (the default)
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

# What the caller's shell or home could change in a result or in a figure is kept out. (Kernels choose matplotlib's inline
# backend only when MPLBACKEND is unset.)
unexport MPLBACKEND MATPLOTLIBRC PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONDONTWRITEBYTECODE PYTHONWARNINGS
unexport PYTHONOPTIMIZE PYTHONSAFEPATH JUPYTER_PATH JUPYTER_CONFIG_PATH PYTEST_ADDOPTS
unexport PIP_TARGET PIP_PREFIX PIP_ROOT PIP_USER # where pip installs
export MPLCONFIGDIR := $(CURDIR)/.venv/settings/matplotlib
export IPYTHONDIR := $(CURDIR)/.venv/settings/ipython
export JUPYTER_CONFIG_DIR := $(CURDIR)/.venv/settings/jupyter
# Our matrices are small: threads of a product would wait for each other, the more so under two workers.
export OPENBLAS_NUM_THREADS := 1

# .venv/made-from says of which lock, interpreter and folder .venv was made; where one of them has changed, or an attempt
# was interrupted, it is made again. A changed pyproject.toml asks for the editable installs alone.
BIN := .venv/bin
ipython := .venv/settings/ipython/profile_default
python_version := $(shell "$(PYTHON)" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
made_from := $(python_version) $(shell { pwd -P; cat requirements.lock; } | cksum)
installed_from := $(made_from) $(shell cat pyproject.toml companion/pyproject.toml | cksum)

venv: ## make or refresh .venv
ifneq ($(shell cat .venv/made-from 2>/dev/null),$(made_from))
	@case "$(python_version)" in 3.11.*|3.12.*|3.13.*|3.14.*) ;; *) \
	  echo "$(PYTHON) $(if $(python_version),is Python $(python_version),cannot be run); what is needed is Python 3.11 to 3.14 (packages of the lock have no wheels for 3.15), as in: make PYTHON=python3.12 test" >&2; exit 1;; esac
	rm -rf .venv
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip check
	$(BIN)/python -c 'import matplotlib.font_manager' # builds the font cache here, not under some chapter's first figure
	@# no notice per kernel that it talks TCP; and what a cell prints goes out in one piece: a line that is cut would be two
	@mkdir -p $(ipython)/startup && echo 'c.IPKernelApp.log_level = "ERROR"' > $(ipython)/ipython_kernel_config.py
	@echo 'for _ in "stdout", "stderr": getattr(__import__("sys"), _).flush_interval = 86400' > $(ipython)/startup/in_one_piece.py
	@echo '$(made_from)' > .venv/made-from
endif
ifneq ($(shell cat .venv/installed-from 2>/dev/null),$(installed_from))
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable companion
	@echo '$(installed_from)' > .venv/installed-from
endif

# Jupyter's cache of executed chapters knows their cells alone, so _build is dropped whenever what the cells call has changed:
# the package, committed results, the environment. Pages are always rendered afresh: Sphinx warns only when it reads a page.
key = { cat .venv/made-from; find adascale companion results -type f ! -path 'companion/tests/*' ! -name '*.pyc' \
  ! -name '*.nb[ci]' -exec cksum {} + 2>/dev/null | LC_ALL=C sort; } | cksum
cache = _build/.jupyter_cache

book: venv ## render the book into _build/html, executing chapters that changed
	@key="$$($(key))"; if [ "$$(cat _build/key 2>/dev/null)" != "$$key" ]; then \
	  rm -rf _build && mkdir _build && echo "$$key" > _build/key; fi
	rm -rf _build/html _build/.doctrees && mkdir -p $(cache)
	$(BIN)/jcache notebook -p $(cache) clear --force
	$(BIN)/jcache notebook -p $(cache) add --reader myst_nb_md $(CHAPTERS)
	$(BIN)/jcache project -p $(cache) execute --executor local-parallel --timeout 600 # a process a core
	$(BIN)/jupyter-book build -W --keep-going -n .

notebooks: venv ## execute the chapters again and write their committed .ipynb
	$(BIN)/python tools/notebooks.py $(CHAPTERS)

# In a minute: no training, no book, no exact accountant, and a sixth of the random inputs.
CORE = $(filter-out %laws.py %shadowing.py,$(wildcard tests/channel/test_*.py)) tests/policies/test_policies.py \
  $(patsubst %,tests/%.py,accounting/test_orders accounting/test_renyi cli/test_leakage cli/test_refused cli/test_schedule \
  test_architecture test_checks test_digits test_problem test_registry test_rootfind test_scenario test_tuning)

check: venv lint ## lint, types and the tests of the core
	$(BIN)/python -m pytest -n 2 -q --hypothesis-profile few -m "not slow" $(CORE)

# One worker builds the book, and it starts first. Without the book: make test PYTEST="-m 'not book'"
test: venv lint ## lint, tests, the committed notebooks against their outputs, the built pages
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST)

variants: venv ## run the chapters with other parameters
	$(BIN)/python tools/variants.py $(wildcard notebooks/[01]*.md)

# The table of a sweep file lies beside it. The store "runs" keeps what is finished: reproduce goes on where it was stopped.
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
sweeps = $(shell grep -l '^\[\[runs\]\]' results/*/*.toml)
studies = fork scaling causal growth certificate exact audit-digits audit-mnist audit-paired weights-quadratic weights-thirds \
  weights-response weights-contest channels channels-exact senders noise estimates hard-noise hard-paths reactive \
  correlated-noise
sweep = $(BIN)/adascale sweep $(1) --out $(2) --store $(3) --jobs $(JOBS)
define newline


endef

reproduce: venv ## make every committed result again, or compare SAMPLE=3 of them (JOBS=; data sets in ADASCALE_DATA)
ifdef SAMPLE
	rm -rf _build/sample
	$(BIN)/python tools/reproduce_sample.py $(SAMPLE) _build/sample $(SEED)
else
	$(foreach file,$(sweeps),$(call sweep,$(file),$(file:.toml=.csv),runs)$(newline))
	$(foreach name,$(studies),$(BIN)/python -m companion make $(name)$(newline))
endif

quick: venv ## the same path in small, on data that is there, compared with tests/quick.csv
	rm -rf _build/quick && mkdir -p _build/quick
	$(call sweep,tests/quick.toml,_build/quick/quick.csv,_build/quick/store)
	$(BIN)/python tools/reproduce_sample.py _build/quick/quick.csv tests/quick.csv

bench: venv ## time the package beside its peers and write results/benchmarks: many minutes
	for tool in bench bench_training bench_accounting; do $(BIN)/python tools/$$tool.py results/benchmarks || exit; done

lint: venv ## check style and formatting (ruff) and types (mypy)
	$(BIN)/python -m ruff check . && $(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy --num-workers 2

clean: ## remove everything that a target made, .venv included
	rm -rf .venv _build .pytest_cache .ruff_cache .mypy_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# For both platforms and Python 3.11 to 3.14 at once; 3.15 waits for wheels of cvxpy and h5py. Pins stay as they are unless pyproject.toml asks otherwise.
lock: ## resolve requirements.lock from pyproject.toml (UPGRADE=--upgrade: newest versions)
	rm -rf _build/uv && "$(PYTHON)" -m venv _build/uv && _build/uv/bin/python -m pip install --quiet uv
	_build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --prerelease disallow --custom-compile-command 'make lock' $(UPGRADE) \
	  --output-file requirements.lock pyproject.toml
