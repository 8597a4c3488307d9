# Every target makes or refreshes .venv by itself; nothing has to be activated or exported.
# Another interpreter: make PYTHON=python3.12 book

PYTHON ?= python3
CHAPTERS = $(wildcard notebooks/*.md)

# Every path below is relative: in another folder, `make -f` would remove that folder's .venv.
quoted = '$(subst ','\'',$(1))'
ifneq ($(shell printf '%s\n' $(call quoted,$(MAKEFILE_LIST)) | { read -r file; [ "$$file" -ef Makefile ] && [ ! -L Makefile ] && echo here; }),here)
  $(error make works in its own folder alone: call it there, or with -C and that folder instead of -f)
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # book, notebooks and test share .venv and _build: under -j too they take turns

# What the caller's shell could change in a result or in a figure is kept out. Kernels choose the inline backend of
# matplotlib only when MPLBACKEND is unset; fonts and rc files, IPython's start-up files and Jupyter's settings come from
# .venv, never from the home directory.
unexport MPLBACKEND MATPLOTLIBRC PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONDONTWRITEBYTECODE PYTHONWARNINGS
unexport PYTHONOPTIMIZE PYTHONSAFEPATH JUPYTER_PATH JUPYTER_CONFIG_PATH PYTEST_ADDOPTS
unexport PIP_TARGET PIP_PREFIX PIP_ROOT PIP_USER # where pip installs
export MPLCONFIGDIR := $(CURDIR)/.venv/settings/matplotlib
export IPYTHONDIR := $(CURDIR)/.venv/settings/ipython
export JUPYTER_CONFIG_DIR := $(CURDIR)/.venv/settings/jupyter
# Our matrices are small: threads of a product would wait for each other, the more so under two workers.
export OPENBLAS_NUM_THREADS := 1

# ---------------------------------------------------------------------------------------------------------------------
# The environment. .venv/made-from says of which lock, interpreter and folder it was made; where one of them has changed, or
# an attempt was interrupted, it is made again. A changed pyproject.toml asks for the editable installs alone.

BIN := .venv/bin
ipython := .venv/settings/ipython/profile_default
python_version := $(shell "$(PYTHON)" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
made_from := $(python_version) $(shell { pwd -P; cat requirements.lock; } | cksum)
installed_from := $(made_from) $(shell cat pyproject.toml companion/pyproject.toml | cksum)

venv: ## make or refresh .venv
ifneq ($(shell cat .venv/made-from 2>/dev/null),$(made_from))
	@case "$(python_version)" in 3.11.*|3.12.*|3.13.*) ;; *) \
	  echo "$(PYTHON) $(if $(python_version),is Python $(python_version),cannot be run); what is needed is Python 3.11, 3.12 or 3.13, as in: make PYTHON=python3.12 test" >&2; exit 1;; esac
	rm -rf .venv
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip check
	$(BIN)/python -c 'import matplotlib.font_manager' # builds the font cache here, not under some chapter's first figure
	@mkdir -p $(ipython)/startup && echo 'c.IPKernelApp.log_level = "ERROR"' \
	  > $(ipython)/ipython_kernel_config.py # no notice per kernel that it talks TCP
	@# what a cell prints goes out at its end, in one piece: in pieces, a line may be cut before its end, which becomes an empty line
	@echo 'for _ in "stdout", "stderr": getattr(__import__("sys"), _).flush_interval = 86400' \
	  > $(ipython)/startup/in_one_piece.py
	@echo '$(made_from)' > .venv/made-from
endif
ifneq ($(shell cat .venv/installed-from 2>/dev/null),$(installed_from))
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable companion
	$(BIN)/python tools/scripts.py
	@echo '$(installed_from)' > .venv/installed-from
endif

.PHONY: help book pdf notebooks check test fuzz coverage mutants variants twice reproduce quick bench lint clean lock venv book-key

help: ## list the targets (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

# ---------------------------------------------------------------------------------------------------------------------
# The book. Jupyter's cache of executed chapters knows their cells and nothing else, so _build is dropped whenever what the cells
# call has changed: the package and the names that it registers, committed results, the environment. Pages are always rendered
# afresh (seconds): Sphinx reports a warning only when it reads a page, and -W must see every one, every time.

key = { cat .venv/made-from; awk '/^\[/ { on = /entry-points/ } on' pyproject.toml; find adascale companion results -type f ! -path 'companion/tests/*' ! -name '*.pyc' ! -name '*.nb[ci]' ! -name coverage.txt -exec cksum {} + 2>/dev/null | LC_ALL=C sort; } | cksum

cache = _build/.jupyter_cache

book-key:
	@$(key)

book: venv ## render the book into _build/html, executing chapters that changed
	@key="$$($(key))"; if [ "$$(cat _build/key 2>/dev/null)" != "$$key" ]; then \
	  mkdir -p _build && find _build -mindepth 1 -maxdepth 1 -exec rm -rf {} + \
	  && echo "$$key" > _build/key; fi
	rm -rf _build/html _build/.doctrees
	mkdir -p $(cache)
	$(BIN)/jcache notebook -p $(cache) clear --force
	$(BIN)/jcache notebook -p $(cache) add --reader myst_nb_md $(CHAPTERS)
	$(BIN)/jcache project -p $(cache) execute --executor local-parallel --timeout 600 # a process a core
	$(BIN)/jupyter-book build -W --keep-going -n .

pdf: book ## the book as one PDF, _build/pdf/adascale.pdf, printed by Chromium
	$(BIN)/jupyter-book build -W --keep-going -n --builder singlehtml .
	mkdir -p _build/pdf && $(BIN)/python tools/pdf.py _build/singlehtml _build/pdf/adascale.pdf

notebooks: venv ## execute the chapters again and write their committed .ipynb
	$(BIN)/python tools/notebooks.py $(CHAPTERS)

# The core, for the loop of a developer, with a sixth of the random inputs. Left out: training, the book, notebooks, other processes of
# make or pytest, the exact accountant and the distributions of channels.
APART = adapters audit book comparison learning runs policies/test_learn.py policies/test_selection.py \
  $(patsubst %,channel/test_%.py,laws shadowing) \
  $(patsubst %,accounting/test_%.py,adapters discrete error_bounds events exact exact_ends exact_parts) \
  $(patsubst %,accounting/test_%.py,exact_peers extremes intervals kernels selfcheck) \
  $(patsubst %,cli/test_%.py,benchmark outputs plot signals stream_killed stream_state train) \
  $(patsubst %,test_%.py,compiled environment extension makefile notebooks readme tools wheel)

check: venv lint ## lint, types and the tests of the core and a small certificate
	$(BIN)/python -m pytest -n 2 -q --hypothesis-profile few -m "not slow and not book" tests companion/tests/bounds/test_certificate.py $(APART:%=--ignore=tests/%)

# One worker builds the book, and it starts first. Without the book: make test PYTEST="-m 'not book'"
test: venv lint ## lint, tests, the committed notebooks against their outputs, the built pages
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST)

# The properties over thousands of random inputs, and the long fault tests. The seed is in the command that make prints; with it the
# same inputs come again: make fuzz SEED=1. One file alone: make fuzz PYTEST=tests/test_problem.py
EXAMPLES ?= 2000
fuzz: venv ## random inputs, EXAMPLES=2000 a property, and random faults (SEED)
	$(BIN)/python -m pytest -n 2 -q -m "hypothesis or fuzz" --fuzz --fuzz-examples $(EXAMPLES) \
	  --hypothesis-seed $(or $(SEED),$(strip $(shell od -An -N4 -tu4 /dev/urandom))) $(PYTEST)

# Lines and branches of the library that no test runs. Compiled functions are seen only where they run uncompiled: a second pass does so,
# with the tests that are quick enough that way; NumPy's scalars warn where compiled code does not. In one process each, as a
# worker of pytest-xdist may end before it has written what it measured. What only chapters call runs in the kernels of the book.
UNCOMPILED = tests/accounting --ignore=tests/accounting/test_exact.py --ignore=tests/accounting/test_exact_peers.py \
  tests/policies tests/test_problem.py tests/test_rootfind.py \
  companion/tests/test_weights.py companion/tests/bounds/test_certificate.py \
  companion/tests/bounds/test_bounds.py::test_drift_lemma_holds_for_any_schedule \
  companion/tests/test_lyapunov.py::test_one_rate_alone_is_tried_where_one_is_asked_for
QUICK = not million and not tenth and not little_memory and not (programme and (test_online or test_causal or test_streaming))
ASIDE = test_environment.py test_makefile.py test_notebooks.py
MEASURED = $(BIN)/python -m coverage run -m pytest -q -m "not book"

coverage: venv ## lines and branches that the tests run, into results/coverage.txt
	rm -rf _build/coverage && mkdir -p _build/coverage
	$(MEASURED) $(ASIDE:%=--ignore=tests/%)
	NUMBA_DISABLE_JIT=1 $(MEASURED) -W ignore::RuntimeWarning -k "$(QUICK)" $(UNCOMPILED)
	$(BIN)/python -m coverage run $(BIN)/jupyter-book build --path-output _build/coverage/book .
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --fail-under=95 > results/coverage.txt; status=$$?; cat results/coverage.txt; exit $$status

# Which small changes of one module do its tests not notice? In a clone of the last commit, because cosmic-ray edits the module in place.
MODULE ?= adascale/tuning.py
TESTS ?= tests/test_tuning.py
CR = ../cosmic-ray/bin
mutants: venv ## change MODULE=adascale/tuning.py in small ways: do TESTS=tests/test_tuning.py notice?
	[ -x _build/cosmic-ray/bin/cosmic-ray ] || { "$(PYTHON)" -m venv _build/cosmic-ray \
	  && _build/cosmic-ray/bin/python -m pip install --quiet cosmic-ray==8.7.0; }
	rm -rf _build/mutants && git clone --quiet . _build/mutants
	cd _build/mutants && printf '%s\n' '[cosmic-ray]' 'module-path = "$(MODULE)"' 'timeout = 120.0' 'excluded-modules = []' \
	  'test-command = "../../.venv/bin/python -m pytest -q -x $(TESTS)"' '[cosmic-ray.distributor]' 'name = "local"' > mutants.toml \
	  && $(CR)/cosmic-ray baseline mutants.toml && $(CR)/cosmic-ray init mutants.toml mutants.sqlite \
	  && $(CR)/cosmic-ray exec mutants.toml mutants.sqlite && $(CR)/cr-report mutants.sqlite

# A reader's own values: other parameters in each chapter that has them, once with all cells and once with the visible ones alone.
variants: venv ## run the chapters with other parameters
	$(BIN)/python tools/variants.py $(wildcard notebooks/[01]*.md)

# Both in the same folder: the addresses of downloads contain a digest of where the book was built. status.html has the seconds.
twice: venv ## build the book twice, from nothing, and compare every file
	rm -rf _build/twice
	for build in 1 2; do \
	  $(BIN)/jupyter-book build -W --keep-going -n --path-output _build/twice/new . && mv _build/twice/new _build/twice/$$build || exit; done
	diff -r --exclude=status.html _build/twice/1/_build/html _build/twice/2/_build/html

# ---------------------------------------------------------------------------------------------------------------------
# Committed results. A sweep file is a TOML file with [[runs]]; its table lies beside it. The store keeps finished runs and
# checkpoints, so `make reproduce` goes on where it was stopped.

JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
sweep_files = $(shell grep -l '^\[\[runs\]\]' results/*/*.toml)

# $(call sweep,FILE,TABLE,STORE)
define sweep
$(BIN)/adascale sweep $(1) --out $(2) --store $(3) --jobs $(JOBS)

endef

define study
$(BIN)/python -m companion make $(1)

endef

studies = fork scaling causal growth certificate exact audit-digits audit-mnist audit-paired weights-quadratic weights-thirds \
  weights-response weights-contest channels senders noise estimates

reproduce: venv ## make every committed result again, or compare SAMPLE=3 of them (JOBS=; data sets in ADASCALE_DATA)
ifdef SAMPLE
	rm -rf _build/sample
	$(BIN)/python tools/reproduce_sample.py $(SAMPLE) _build/sample --jobs $(JOBS) $(if $(SEED),--seed $(SEED))
else
	$(foreach file,$(sweep_files),$(call sweep,$(file),$(file:.toml=.csv),runs))
	$(foreach name,$(studies),$(call study,$(name)))
endif

quick: venv ## the same path in small, on data that is there, compared with tests/quick.csv
	rm -rf _build/quick && mkdir -p _build/quick
	$(call sweep,tests/quick.toml,_build/quick/quick.csv,_build/quick/store)
	$(BIN)/python tools/reproduce_sample.py --compare _build/quick/quick.csv tests/quick.csv

bench: venv ## time the package beside its peers and write results/benchmarks: many minutes
	$(BIN)/python tools/bench.py results/benchmarks
	$(BIN)/python tools/bench_scale.py results/benchmarks
	$(BIN)/python tools/bench_training.py results/benchmarks
	$(BIN)/python tools/bench_accounting.py results/benchmarks

lint: venv ## check style and formatting (ruff) and types (mypy)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy --num-workers 2

clean: ## remove everything that a target made, .venv included
	rm -rf .venv _build .pytest_cache .ruff_cache .mypy_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv resolves for both platforms and all three Pythons at once; it is needed here only, in a venv that does not stay.
# Pins stay as they are unless pyproject.toml asks otherwise; `make lock UPGRADE=--upgrade` takes the newest of everything.
lock: ## resolve requirements.lock from pyproject.toml (UPGRADE=--upgrade: newest versions)
	rm -rf _build/uv && "$(PYTHON)" -m venv _build/uv && _build/uv/bin/python -m pip install --quiet uv
	_build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --prerelease disallow --custom-compile-command 'make lock' $(UPGRADE) \
	  --output-file requirements.lock pyproject.toml
	rm -rf _build/uv
