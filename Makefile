# make help lists the targets.

PREFIX  ?= /usr/local
DESTDIR ?=
# mount(8) looks for helpers in /sbin alone.
SBINDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/sbin,$(PREFIX)/sbin)

GO       ?= go
FUZZTIME ?= 10s
# The longest that one package's tests may take before they count as hung.
TIMEOUT  ?= 10m

# All packages but the end-to-end tests.
UNIT = $$($(GO) list ./... | grep -v /integration)

.PHONY: help build install demo check test lint unit race integration fuzz bench install-deps clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 14

build: ## bin/wsfs
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/wsfs ./cmd/wsfs

install: build ## wsfs into PREFIX/bin, mount.fuse.wsfs into SBINDIR; DESTDIR is put before both
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(SBINDIR)"
	install -m 755 bin/wsfs "$(DESTDIR)$(PREFIX)/bin/wsfs"
	ln -sfn "$(PREFIX)/bin/wsfs" "$(DESTDIR)$(SBINDIR)/mount.fuse.wsfs"

demo: install-deps build ## show the main job on a real project
	integration/demo.sh bin/wsfs .

check: lint unit ## what to run before a commit: a minute

test: install-deps lint unit race integration ## everything CI runs

lint: ## formatting, vet, staticcheck, and that other platforms build
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); [ -z "$$bad" ] || { echo "not formatted: $$bad" >&2; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	GOOS=darwin $(GO) build ./...
	GOOS=linux GOARCH=arm64 $(GO) build ./...

unit: ## tests of all packages but integration
	$(GO) test -timeout $(TIMEOUT) $(UNIT)

# The tests of fs that race most; all of them take over ten minutes there.
RACE_FS = '^Test(Tree|Listing|ListingWhileChanging|RemoveWhileListing|Forget|LostEvents|EventFlood|HostReplacesUnderReaders|Identity|Invalidate|ModeOfOpens|AcrossRoutes|OtherDaemon)$$'

race: ## the same under the race detector, short
	$(GO) test -race -short -timeout $(TIMEOUT) $$($(GO) list ./... | grep -v -e /integration -e /fs$$)
	$(GO) test -race -timeout $(TIMEOUT) -run $(RACE_FS) ./fs

integration: ## the real binary on real mounts, with real programs
	$(GO) test -timeout 25m ./integration/...

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p; \
	  done; \
	done

bench: ## every benchmark
	$(GO) test -run '^$$' -bench . -benchmem ./...

install-deps: ## the Debian packages that are missing
	@.ci/install-deps

clean: ## what build made
	rm -rf bin
