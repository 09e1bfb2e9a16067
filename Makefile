# make test    every check; ends with `N passed, N failed, N skipped`
# make demo    a crash of a bundled program, and what failsketch makes of it
# make bench   how fast, as ratios       make eval   how well, on the zoo       make lint   formatting and clippy

SHELL := bash
# Debian packages: compilers that the tests build programs with, and tools whose word ours is held against.
PACKAGES := gcc g++ make cmake libc6-dev clang lld libclang-dev libclang-rt-dev llvm binutils dwz gdb strace python3 python3-jsonschema postgresql util-linux chromium chromium-driver python3-pip debuginfod
CARGO := cargo
JOBS := 2
FUZZ_SECONDS := 15
EVAL :=

all: test

test: setup
	@JOBS=$(JOBS) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/all.sh

demo: setup
	@demo/run.sh

# The zoo's facts against its sources and its machine code, then how good its sketches are and what they cost. Other
# folders of programs with facts: make eval EVAL="FOLDER…".
eval: setup
	@$(MAKE) -s -C tests/zoo -j$(JOBS) check code
	@FAILSKETCH_FLOW_RUNS=20 $(CARGO) test -j$(JOBS) -p failsketch-tests --test suite zoo_flow -- --test-threads $(JOBS)
	@tests/eval/eval.py $(EVAL)

# A real server program to attach to, and its benchmark.
bench: PACKAGES += redis-server redis-tools
bench: setup
	@tests/bench/bench.py

fuzz: setup
	@fuzz/run.sh $(FUZZ_SECONDS)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy -j$(JOBS) --workspace --all-targets -- -D warnings

# Installs what is missing as root; says what is missing to anybody else.
setup:
	@PACKAGES="$(PACKAGES)" .ci/setup

.PHONY: all test demo bench eval fuzz lint setup
