# make demo    what nsrun does, on this very module
# make build   ./nsrun, and what it executes: ./nsrun-mcp for `nsrun mcp`, ./nsrun-credential for --credential
# make test    what says within minutes whether it works; as root: once as root, once as an
#              ordinary user. The last line says what ran, and what runs the rest
# make race    root's tests with the race detector
# make test-long
#              all of that with the entry point and with the race detector, with more rounds
# make test-bwrap, make test-clients
#              bubblewrap's own tests, and programs that call it, with nsrun in its place;
#              an MCP client that is not ours
# make test-tools
#              what developers do every day, natively and in a sandbox: more than 200 tasks
# make test-kernels
#              what nsrun does on other kernels (KERNELS="5.10 6.1 6.12 6.12-arm64 6.12-initramfs 6.1-systemd"),
#              in qemu; with PACKAGES="overlay nsexec", or all, their tests instead, which takes an hour and more
# make test-containers
#              what nsrun does in containers with settings of docker, podman and Kubernetes, and on
#              other hosts (HOSTS="Docker* Linux"), with the attacks of assault_test.go; as root
# make bench   all benchmarks once, then side by side with bwrap, sessions side by side
#              with cp, find and others, builds and tests with none, writing with and without
#              a watcher, and a network by rules with none and with a proxy
# make lint    gofmt, vet, staticcheck, govulncheck
# make fuzz    every fuzz test for FUZZTIME
# make cross   arm64, and other systems: compiles, and is vetted
# make generate
#              the man page, docs/cli.md and the completions, from the tables; the BPF programs,
#              from C; the launcher's image; the stubs for other systems, from what is exported on Linux
# make install, make uninstall
#              what was built, below DESTDIR and PREFIX; make install-bwrap: a link
#              to it that is called bwrap
#
# Go and git are needed. What else is (see `need`), root gets installed; others
# are told its name.

GO ?= go
FUZZTIME ?= 30s
BENCHTIME ?= 10x
RUNS ?= 300
SESSION_RUNS ?= 11
WATCH_RUNS ?= 5
NATIVE_RUNS ?= 7
FILES ?= 100000
NETWORK_RUNS ?= 7
PREFIX ?= /usr/local

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.8.0

# Go asks git for the commit, and fails where git refuses to answer: in a checkout of another user, as in containers.
ifneq ($(shell git rev-parse 2>&1),)
export GOFLAGS := $(shell $(GO) env GOFLAGS) -buildvcs=false
endif

# The real bubblewrap 0.12 to compare with, where it was built (make deps).
ifndef NSRUN_BWRAP
export NSRUN_BWRAP := $(shell test/bwrap/fetch.sh --path 2>/dev/null)
endif

# The entry point is package internal/prerun's, where that knows this version of Go; it takes a static program.
STATIC = CGO_ENABLED=0
EARLY = $(shell $(GO) list -f '{{if .SFiles}}-E nsrun_early{{end}}' ./internal/prerun)

# On a busy machine a package takes several times as long.
SLOW = -timeout 30m

# Another program may install packages, as on a machine that has just booted, or an archive may not answer once.
APT = -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3

# need COMMAND PACKAGE: the Debian package is installed if the command is missing.
need = need() { \
	command -v $$1 >/dev/null && return; \
	if [ $$(id -u) = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing $$2"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get $(APT) install -qqy --no-install-recommends $$2 >/dev/null 2>&1 || \
		{ apt-get $(APT) update -qq && apt-get $(APT) install -qqy --no-install-recommends $$2 >/dev/null; }; \
	else \
		echo "$$1 is missing: install the package $$2" >&2; return 1; \
	fi; }

.PHONY: all build generate stubs install install-bwrap uninstall demo test test-long test-bwrap test-clients test-kernels test-containers test-tools race bench lint fuzz cross deps clean
.NOTPARALLEL:

all: build

build:
	$(STATIC) $(GO) build -trimpath -ldflags="-s -w $(EARLY)" -o nsrun ./cmd/nsrun
	$(STATIC) $(GO) build -trimpath -ldflags="-s -w" -o nsrun-mcp ./cmd/nsrun-mcp
	$(STATIC) $(GO) build -trimpath -ldflags="-s -w" -o nsrun-credential ./cmd/nsrun-credential

CLANG = clang-14
BPF2GO = github.com/cilium/ebpf/cmd/bpf2go@v0.22.0

stubs:
	$(GO) run ./internal/linuxonly/gen

generate: build stubs
	@$(need); need $(CLANG) $(CLANG); need llvm-strip-14 llvm-14
	cd netpolicy/cgroup && GOPACKAGE=main $(GO) run $(BPF2GO) -cc $(CLANG) -strip llvm-strip-14 -target bpfel \
		-no-global-types -output-dir gen enforce bpf/enforce.c -- -O2 -Wall -Wextra -Werror -Wno-missing-field-initializers
	cd netpolicy/cgroup && $(GO) run ./gen
	$(GO) run ./internal/reexec/gen
	./nsrun man >man/nsrun.1
	./nsrun man --markdown >docs/cli.md
	./nsrun completion bash >completions/nsrun.bash
	./nsrun completion zsh >completions/_nsrun
	./nsrun completion fish >completions/nsrun.fish

# Root may have no Go: what is there is installed as it is.
nsrun nsrun-mcp nsrun-credential:
	@$(MAKE) --no-print-directory build

BIN = $(DESTDIR)$(PREFIX)/bin
LIBEXEC = $(DESTDIR)$(PREFIX)/libexec/nsrun
SHARE = $(DESTDIR)$(PREFIX)/share
BASH = $(SHARE)/bash-completion/completions
ZSH = $(SHARE)/zsh/site-functions
FISH = $(SHARE)/fish/vendor_completions.d

# Where that is, AppArmor lets only programs with a profile make user namespaces. The other profile is nsrun-strict.
APPARMOR = nsrun
RESTRICTED = /proc/sys/kernel/apparmor_restrict_unprivileged_userns

install: nsrun nsrun-mcp nsrun-credential
	@if [ -n "$$(find . -name '*.go' ! -name '*_test.go' -newer nsrun -print -quit)" ]; then \
		echo "nsrun was built before the source changed, and is installed as it is (try: make && make install)" >&2; fi
	install -D -m 755 nsrun $(BIN)/nsrun
	install -D -m 755 nsrun-mcp $(LIBEXEC)/nsrun-mcp
	install -D -m 755 nsrun-credential $(LIBEXEC)/nsrun-credential
	install -D -m 644 man/nsrun.1 $(SHARE)/man/man1/nsrun.1
	install -D -m 644 completions/nsrun.bash $(BASH)/nsrun
	install -D -m 644 completions/_nsrun $(ZSH)/_nsrun
	install -D -m 644 completions/nsrun.fish $(FISH)/nsrun.fish
	@if [ ! -e $(RESTRICTED) ]; then :; elif [ -n "$(DESTDIR)" ] || [ -w /etc ]; then \
		(set -x; install -D -m 644 cmd/nsrun/apparmor/$(APPARMOR) $(DESTDIR)/etc/apparmor.d/nsrun); \
	else echo "not installed: AppArmor's profile, by which /usr/bin/nsrun and /usr/local/bin/nsrun may make user namespaces;" \
		"others may not (try: sudo make install)" >&2; fi

# Never by default: it may hide the other bwrap. It does not replace it.
install-bwrap: install
	@if [ -e $(BIN)/bwrap ] && [ "$$(readlink $(BIN)/bwrap)" != nsrun ]; then \
		echo "$(BIN)/bwrap is there already, and not nsrun" >&2; exit 1; fi
	ln -sf nsrun $(BIN)/bwrap
	ln -sf nsrun $(BASH)/bwrap
	ln -sf nsrun.fish $(FISH)/bwrap.fish
	printf '#compdef bwrap\n_nsrun "$$@"\n' >$(ZSH)/_bwrap

uninstall:
	@[ ! -e $(RESTRICTED) ] || [ ! -w $(DESTDIR)/etc/apparmor.d ] || (set -x; rm -f $(DESTDIR)/etc/apparmor.d/nsrun)
	rm -f $(BIN)/nsrun $(LIBEXEC)/nsrun-mcp $(LIBEXEC)/nsrun-credential $(SHARE)/man/man1/nsrun.1 $(BASH)/nsrun $(ZSH)/_nsrun $(FISH)/nsrun.fish
	rmdir $(LIBEXEC) 2>/dev/null || true
	if [ "$$(readlink $(BIN)/bwrap)" = nsrun ]; then rm -f $(BIN)/bwrap $(BASH)/bwrap $(FISH)/bwrap.fish $(ZSH)/_bwrap; fi

demo: build
	@bash demo.sh

# What is not on every machine: bwrap to compare with, gcc for the race detector,
# readers of the man page, shells for the completions, programs that use a network.
deps:
	@$(need); need bwrap bubblewrap; need gcc "gcc libc6-dev"; need mandoc mandoc; need groff groff-base; \
	need zsh zsh; need fish fish; \
	need git git; need bindfs bindfs; need ssh openssh-client; need /usr/sbin/sshd openssh-server; need gpg gnupg; need dbus-daemon dbus; need xdg-dbus-proxy xdg-dbus-proxy; need psql postgresql-client; need dig bind9-dnsutils; \
	[ -e /usr/share/bash-completion/bash_completion ] || need bash_completion bash-completion; \
	sed '/^\#/,$$d' test/tools/packages | $(tools)
	@test/bwrap/fetch.sh >/dev/null || [ $$? = 77 ]

# What of cmd/nsrun is run once more with the entry point, which begins sandboxes by itself. make test-long
# runs all.
AT_ENTRY = ^TestForged|^TestInherited$$|^TestNothingShared$$|^TestElevated$$|^TestMonitorIsClosed$$|^TestScript$$/^(bwrap|status|signals|links)$$

TEST_FLAGS = -vet=off -count=1 $(SLOW)

# The compiler takes an eighth less time if it collects garbage less often. The tests collect it as usual. Without
# what debuggers read it takes another tenth less, also for the programs that tests build.
COMPILED = GOGC=300 '-exec=env -u GOGC'
test race: export GOFLAGS := $(strip $(or $(GOFLAGS),$(shell $(GO) env GOFLAGS)) -gcflags=all=-dwarf=false)
TESTSUM = GO=$(GO) $(GO) run ./internal/testsum

# What takes longest begins first, and as a package waits for a third of its time there are more packages at once
# than processors. Without cgo everything but the race detector's part is compiled once.
TESTED = -p=4 ./cmd/nsrun . ./overlay ./nsexec ./internal/differ ./fanotify ./cmd/nsrun-mcp ./netpolicy/broker \
	./internal/homelayer ./test/tools ./internal/reexec ./internal/prerun ./test/losses ./internal/runslater ./internal/textdiff ./...

# What is slow from a cold build cache, vet and the race detector, is for make lint and make race. Temporary files are
# in memory, if there is enough of it; make race and make test-long test the same on the disk.
test:
	@$(need); need bwrap bubblewrap || [ -z "$$NSRUN_MUST_WORK" ]; \
	set -f; IFS=' '; \
	$(TESTSUM) $(STATIC) NSRUN_TEST_MEMORY=1 $(COMPILED) $(TEST_FLAGS) $(TESTED) \
		--then $(STATIC) NSRUN_TEST_MEMORY=1 $(COMPILED) $(TEST_FLAGS) '-ldflags=$(EARLY)' -run '$(AT_ENTRY)' ./cmd/nsrun

# For all of its lines, and for the make that one of them calls.
test-long: export NSRUN_LONG := $(or $(NSRUN_LONG),1)

test-long:
	@$(need); need bwrap bubblewrap || [ -z "$$NSRUN_MUST_WORK" ]; need gcc "gcc libc6-dev"; \
	$(TESTSUM) $(STATIC) $(COMPILED) $(TEST_FLAGS) $(TESTED) --then $(STATIC) $(COMPILED) $(TEST_FLAGS) '-ldflags=$(EARLY)' ./cmd/nsrun
	@$(MAKE) --no-print-directory race

# Without gcc there is no race detector, and then it is said. Root's tests are run once here, as root, with the
# whole of their tables: as an ordinary user the same code runs, which takes several times as long with the detector.
race:
	@$(need); if need gcc "gcc libc6-dev"; then \
		$(TESTSUM) CGO_ENABLED=1 NSRUN_TEST_ONCE=1 $(COMPILED) -race $(TEST_FLAGS) $(TESTED); \
	elif [ -n "$$NSRUN_MUST_WORK" ]; then exit 1; \
	else echo "SKIPPED: the tests with the race detector" >&2; fi

# Ends with 77 where the real one cannot be had: that may be skipped, and is said.
test-bwrap: build
	@test/bwrap/run.sh ./nsrun || [ $$? = 77 ]

# Debian's kernels in qemu, by software emulation: some minutes each. Ends with 77 where they cannot be had.
KERNELS ?= 5.10 6.1 6.12 6.1-systemd
# Packages whose tests run there. Without any, each verb is tried.
PACKAGES ?=

test-kernels: build
	@LINKED="$(EARLY)" NSRUN_KERNEL_TESTS="$(PACKAGES)" test/kernels/run.sh ./nsrun $(KERNELS) || [ $$? = 77 ]

# Patterns of rows in test/containers/rows; without any, all of them. ? stands for a space.
HOSTS ?=

test-containers: build
	@set -f; test/containers/run.sh ./nsrun $(HOSTS) || [ $$? = 77 ]

test-clients: build
	@test/clients/run.sh || [ $$? = 77 ]
	@test/mcp/run.sh || [ $$? = 77 ]

# tools installs what lines of test/tools/packages name.
tools = while read -r program package; do need $$program $$package </dev/null || true; done

test-tools:
	@$(need); grep -v '^\#' test/tools/packages | $(tools)
	NSRUN_LONG=1 $(STATIC) $(GO) test $(TEST_FLAGS) -v -run TestTask ./test/tools | grep -v '^=== RUN'

bench: build
	$(STATIC) NSRUN_TEST_ONCE=1 $(GO) test $(SLOW) -vet=off -run='^$$' -bench=. -benchtime=$(BENCHTIME) ./...
	@$(need); need bwrap bubblewrap
	$(GO) run ./bench/compare -n $(RUNS)
	$(GO) run ./bench/runner -n $(RUNS)
	@$(need); need rsync rsync || true # it is told what is not measured without it
	$(GO) run ./bench/sessions -n $(SESSION_RUNS) -files $(FILES)
	@$(need); need npm npm || true; need pytest python3-pytest || true; need cmake cmake || true
	$(GO) run ./bench/native -n $(NATIVE_RUNS) -files $(FILES)
	$(GO) run ./bench/watch -n $(WATCH_RUNS) -files $(FILES)
	$(GO) run ./bench/network -n $(NETWORK_RUNS)
	$(GO) run ./bench/against -old . -rounds 1 runner -n 1

lint:
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	if [ -n "$$files" ]; then echo "not formatted:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@echo "govulncheck ./..."; dir=$$(mktemp -d); trap "rm -rf $$dir" EXIT; \
	if ! GOBIN=$$dir $(GO) install $(GOVULNCHECK) >$$dir/log 2>&1; then \
		echo "SKIPPED: govulncheck cannot be had here" >&2; exit 0; fi; \
	$$dir/govulncheck ./... >$$dir/log 2>&1; \
	case $$? in 0) ;; 3) cat $$dir/log; exit 1 ;; \
	*) tail -n 1 $$dir/log; echo "SKIPPED: the data of govulncheck cannot be had here" >&2 ;; esac

fuzz:
	@set -e; for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run='^$$' -toolexec="$(CURDIR)/.ci/uninstrumented" \
				-fuzz="^$$f\$$" -fuzztime=$(FUZZTIME) $$pkg; \
		done; done

cross:
	$(STATIC) GOARCH=arm64 $(GO) build -trimpath -ldflags="-s -w $(EARLY)" -o /dev/null ./cmd/nsrun
	GOARCH=arm64 $(GO) build ./...
	GOARCH=arm64 $(GO) vet ./...
	for os in darwin windows; do for arch in amd64 arm64; do \
		echo "$$os $$arch"; GOOS=$$os GOARCH=$$arch $(GO) build ./... && GOOS=$$os GOARCH=$$arch $(GO) vet ./... || \
		{ echo "a file that needs Linux begins with //go:build linux; then make generate" >&2; exit 1; }; done; done
	@if command -v qemu-aarch64-static >/dev/null; then \
		NSRUN_TEST_HERE=1 GOARCH=arm64 $(GO) test -exec qemu-aarch64-static -skip ^Example ./internal/prog ./internal/mountprog ./mounts; \
	else echo "SKIPPED: tests on arm64 (they need the package qemu-user-static)"; fi

clean:
	rm -f nsrun nsrun-mcp nsrun-credential
