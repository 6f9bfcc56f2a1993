# make        builds the release binary and shows this host's flows, or those of a demonstration if it has few
# make quick  checks what changed since the last commit, in under a minute
# make test   installs the peers the tests compare with (as root, with apt) and runs every check
# make kernels  boots Debian's kernels in virtual machines and writes what works there: docs/KERNELS.md; an hour
# make arm   runs the unit tests of the pure crates as arm64 programs, emulated
# make dist   makes the packages for x86_64 and arm64, in target/packages: docs/guide/install.md
# make bench  measures against the netlink floor, ss and netstat

CARGO ?= cargo
PREFIX ?= /usr/local
MUSL := $(shell uname -m)-unknown-linux-musl

# A static binary where the target and a C compiler for it are installed, else the host's own.
ifneq ($(and $(wildcard $(shell rustc --print sysroot)/lib/rustlib/$(MUSL)/lib),$(CC_$(subst -,_,$(MUSL)))$(shell command -v musl-gcc || command -v $(MUSL)-gcc)),)
TARGET := $(MUSL)
KIND := static
# The 62,000 addresses that the program adjusts when it starts take 14 KB instead of 1.5 MB.
LINK := -Clink-arg=-Wl,-z,pack-relative-relocs
else
TARGET := $(shell rustc -vV | sed -n 's/^host: //p')
KIND := dynamic, needs the C library of this host (rustup target add $(MUSL) and musl-gcc, Debian: musl-tools, make it static)
endif
OUTPUT := $(or $(CARGO_TARGET_DIR),target)/$(TARGET)
RELEASE := $(OUTPUT)/release
PACKAGE := $(OUTPUT)/dist

.PHONY: run build package dist quick test check bench bench-quick bench-doc miri fuzz bpf kernels arm install clean

run: build
	@echo
	@if [ "$$($(RELEASE)/sockeye sockets -tnH | wc -l)" -lt 10 ]; then \
		echo "This host has fewer than ten connections. Here is another one, which ends with the command:"; \
		echo "$(RELEASE)/sockeye demo -- $(RELEASE)/sockeye flows -np"; \
		$(RELEASE)/sockeye demo -- $(RELEASE)/sockeye flows -np || $(RELEASE)/sockeye flows; \
	else \
		echo "$(RELEASE)/sockeye flows"; \
		$(RELEASE)/sockeye flows; \
	fi

build:
	$(CARGO) rustc --locked --release --target $(TARGET) -p sockeye --bin sockeye -- $(LINK)
	@ls -l $(RELEASE)/sockeye
	@echo "$(KIND); profile release"

# As packages and `make install` have it: whole-program optimisation, twice the time.
package:
	$(CARGO) rustc --locked --profile dist --target $(TARGET) -p sockeye --bin sockeye -- $(LINK)
	@ls -l $(PACKAGE)/sockeye
	@echo "$(KIND); profile dist"

# ARCH=x86_64 or aarch64: this one only. scripts/dist-try installs what it makes.
dist:
	scripts/dist $(addprefix --arch ,$(ARCH))

quick:
	scripts/quick

test:
	scripts/test

check:
	scripts/check

# Measures what packages contain.
bench: package
	$(CARGO) build --locked --profile dist --target $(TARGET) -p sockeye-compare
	$(PACKAGE)/bench-compare $(BENCH)

# Runs each benchmark once with the binary of plain `make`, so that none stops working; the figures mean nothing.
bench-quick: build
	$(CARGO) build --locked --release --target $(TARGET) -p sockeye-compare
	$(RELEASE)/bench-compare --quick $(BENCH)

# As bench, and writes the table into the document.
bench-doc: BENCH += --markdown docs/BENCHMARKS.md
bench-doc: bench

# Needs clang; what it makes is committed.
bpf:
	scripts/bpf

miri:
	scripts/miri

# PAGE=65536: with pages of this size.
arm:
	scripts/run-tests --arm64 $(addprefix --page-size ,$(PAGE))

# KERNELS="6.1 6.12-arm64": these only; scripts/kernels --help lists more options.
kernels: build
	scripts/kernels $(KERNELS) --markdown docs/KERNELS.md

# SECONDS for each target.
fuzz:
	scripts/fuzz $(or $(SECONDS),600)

install: package
	install -D -m 755 $(PACKAGE)/sockeye $(DESTDIR)$(PREFIX)/bin/sockeye
	mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1
	$(PACKAGE)/sockeye man $(DESTDIR)$(PREFIX)/share/man/man1
	mkdir -p $(DESTDIR)$(PREFIX)/share/man/man7
	mv $(DESTDIR)$(PREFIX)/share/man/man1/sockeye-filter.7 $(DESTDIR)$(PREFIX)/share/man/man7/
	mkdir -p $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(PACKAGE)/sockeye completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sockeye
	mkdir -p $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	$(PACKAGE)/sockeye completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_sockeye
	mkdir -p $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(PACKAGE)/sockeye completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/sockeye.fish

clean:
	$(CARGO) clean
