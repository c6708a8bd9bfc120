# Every target works on a fresh machine with Go 1.26 and make; what else a target
# needs it installs as root on Debian, or names in one line (scripts/need.sh).

GO ?= go
# The go command with the hook in crypto/tls; see tlsext/gotls.
GOTLS = $(GO) tool gotls
TOOL  = $(GO) tool -modfile=tools/go.mod

# The toolchains whose crypto/tls the hook is tested against, beside the installed one.
TOOLCHAINS ?= go1.26.0 go1.27.4
# What lint looks at besides the plain build.
ALL_TAGS = oracle,toolchains,programs,soak
# How long each fuzz target runs.
FUZZTIME ?= 10s
# Random vectors compared with the Python model, for each parameter set.
ORACLE ?= 8

.DEFAULT_GOAL := help
.PHONY: help demo build check test test-race test-nocgo test-oracle test-toolchains test-programs \
        test-soak lint fuzz bench ci clean

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

demo: build ## handshakes through the proxy, three groups side by side; no GPU needed
	./bin/tlsproxy demo

build: ## bin/tlsproxy, with the hook, static
	CGO_ENABLED=0 $(GOTLS) build -o bin/tlsproxy ./cmd/tlsproxy

check: ## the tests that need no installed program
	CGO_ENABLED=0 $(GOTLS) test ./...
	cd interop/grpc && CGO_ENABLED=0 $(GOTLS) test ./...

test: test-race test-nocgo test-oracle test-toolchains test-programs ## every test

test-race: ## everything under the race detector (needs gcc)
	scripts/need.sh gcc=gcc /usr/include/stdlib.h=libc6-dev
	CGO_ENABLED=1 $(GOTLS) test -race ./...
	cd interop/grpc && CGO_ENABLED=1 $(GOTLS) test -race ./...

test-nocgo: check ## the same tests without cgo

test-oracle: ## the scheme against the independent Python model
	scripts/need.sh python3=python3
	$(GO) test -tags oracle -run Oracle -timeout 120m ./provider/ctruprime -oracle.n=$(ORACLE)

test-toolchains: ## the hook against other Go versions, and crypto/tls's own tests under it
	CTRUTLS_TOOLCHAINS="$(TOOLCHAINS)" $(GO) test -tags toolchains -timeout 30m ./tlsext/gotls

test-programs: ## with curl and openssl against the proxy
	scripts/need.sh curl=curl openssl=openssl
	$(GOTLS) test -tags programs ./interop

test-soak: ## 20,000 handshakes in a row through the proxy
	$(GOTLS) test -tags soak -timeout 30m ./interop/...

lint: ## gofmt, vet, staticcheck, govulncheck, go.mod
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt would change: $$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	$(GOTLS) vet -tags "$(ALL_TAGS)" ./...
	$(GOTLS) vet -tags nogpu ./...
	$(TOOL) staticcheck -tags "$(ALL_TAGS)" ./...
	cd interop/grpc && $(GO) mod tidy -diff && $(GOTLS) vet ./... && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	scripts/govulncheck.sh $(TOOL) govulncheck ./...

fuzz: ## each fuzz target for a short while
	scripts/fuzz.sh $(FUZZTIME)

bench: ## the KEM against ML-KEM in one run, as ratios by benchstat
	@mkdir -p build
	$(GO) test -run '^$$' -bench 'capsul|Generate|Standard' -count 6 ./provider/ctruprime | tee build/bench.txt
	$(TOOL) benchstat build/bench.txt

clean: ## remove what was built
	rm -rf bin build
