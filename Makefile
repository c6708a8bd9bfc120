# Every target works on a fresh machine with Go 1.26 and make; what else a target
# needs it installs as root on Debian, or names in one line (scripts/need.sh).

GO ?= go
# The go command with the hook in crypto/tls; see tlsext/gotls.
GOTLS = $(GO) tool gotls
TOOL  = $(GO) tool -modfile=tools/go.mod
# vet is lint's, once for each set of tags; here it would be run with each way of building.
TEST  = test -vet=off

# The toolchains whose crypto/tls the hook is tested against, beside the installed one.
TOOLCHAINS ?= go1.26.0 go1.27.4
# What lint looks at besides the plain build.
ALL_TAGS = oracle,toolchains,programs,soak
# What runs on a GPU or on its simulator.
GPU_PACKAGES = ./gpu/... ./kernels/... ./internal/bench ./provider
# Packages with some tests on the simulator; their others run without it.
SIM_PACKAGES = ./tlsext ./cmd/tlsproxy ./cmd/tlsproxy/internal/service ./cmd/tlsproxy/internal/report
# Packages with some tests that run installed programs.
PROGRAM_PACKAGES = ./interop ./cmd/tlsproxy
# The environment of builds with -tags gorgonia: cgo, and gorgonia.org/cu compiled with our own cuda.h (gpu/driver/gorgonia).
GORGONIA = CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -I$(CURDIR)/gpu/driver/gorgonia/include"
# What tlsproxy is compared with.
CADDY = v2.11.9
# Where make install puts things.
PREFIX ?= /usr/local
# How long each fuzz target runs.
FUZZTIME ?= 10s
# Random vectors compared with the Python model, for each parameter set.
ORACLE ?= 8

.DEFAULT_GOAL := help
.PHONY: help demo build install build-gorgonia check test test-race test-nocgo test-oracle test-toolchains test-programs test-systemd test-sim test-browser test-gorgonia \
        test-prometheus test-noasm test-gpu test-gpu-gorgonia headline bench-peers overload test-soak sim ptx ptx-check asm-check taint counts lint fuzz bench clean

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort | awk -F'\t' '{printf "  make %-18s %s\n", $$1, $$2}'

demo: build ## handshakes through the proxy, three groups side by side; no GPU needed
	./bin/tlsproxy demo

build: ## bin/tlsproxy, with the hook, static
	CGO_ENABLED=0 $(GOTLS) build -o bin/tlsproxy ./cmd/tlsproxy

install: ## bin/tlsproxy, its manual, completion and units beneath PREFIX (/usr/local), and that beneath DESTDIR
	scripts/install.sh bin/tlsproxy "$(DESTDIR)" "$(PREFIX)"

build-gorgonia: ## bin/tlsproxy with CUDA's driver through gorgonia.org/cu (cgo)
	scripts/need.sh gcc=gcc /usr/include/stdlib.h=libc6-dev
	$(GORGONIA) $(GOTLS) build -tags gorgonia -o bin/tlsproxy ./cmd/tlsproxy

check: ## the tests that need no installed program
	CGO_ENABLED=0 $(GOTLS) $(TEST) ./...
	cd interop/grpc && CGO_ENABLED=0 $(GOTLS) $(TEST) ./...
	cd interop/acme && CGO_ENABLED=0 $(GO) $(TEST) ./...
	cd deploy/kubernetes && CGO_ENABLED=0 $(GO) $(TEST) -count=1 ./...
	cd deploy/prometheus && CGO_ENABLED=0 $(GO) $(TEST) -count=1 ./... # what it reads outside of its module go test does not see change

test: test-race test-nocgo test-noasm test-oracle test-toolchains test-programs test-sim test-gorgonia test-browser test-prometheus ## the tests that need no GPU, but for test-soak and test-systemd

test-race: ## everything under the race detector (needs gcc)
	scripts/need.sh gcc=gcc /usr/include/stdlib.h=libc6-dev
	CGO_ENABLED=1 $(GOTLS) $(TEST) -race ./...
	cd interop/grpc && CGO_ENABLED=1 $(GOTLS) $(TEST) -race ./...

test-nocgo: check ## what make check runs: everything without cgo

test-noasm: ## the KEM in portable Go alone
	CGO_ENABLED=0 $(GO) $(TEST) -tags noasm ./provider/...

test-oracle: ## the scheme against the independent Python model
	scripts/need.sh python3=python3
	CGO_ENABLED=0 $(GO) $(TEST) -tags oracle -run Oracle -timeout 120m ./provider/ctruprime -oracle.n=$(ORACLE)

test-toolchains: ## the hook against other Go versions, and crypto/tls's own tests under it
	CGO_ENABLED=0 CTRUTLS_TOOLCHAINS="$(TOOLCHAINS)" $(GO) $(TEST) -tags toolchains -run "$$(scripts/tests-of.sh toolchains ./tlsext/gotls)" -timeout 30m ./tlsext/gotls

test-programs: ## with curl, openssl, nginx and HAProxy; manual pages, completion, units
	scripts/need.sh curl=curl openssl=openssl nginx=nginx-light zsh=zsh haproxy=haproxy fish=fish groff=groff systemd-analyze=systemd systemd-socket-activate=systemd strace=strace
	CGO_ENABLED=0 $(GOTLS) $(TEST) -tags programs -run "$$(scripts/tests-of.sh programs $(PROGRAM_PACKAGES))" $(PROGRAM_PACKAGES)

test-systemd: build ## the units under a systemd in a container; needs root and namespaces
	scripts/need.sh systemd-nspawn=systemd-container openssl=openssl curl=curl
	scripts/systemd.sh bin/tlsproxy

sim: ## build/libcudasim.so, a stand-in for libcuda that runs the kernels on the CPU
	scripts/need.sh g++=g++ objcopy=binutils
	$(MAKE) -C kernels/sim -j2

# The tests of ./kernels are one goroutine that waits for the simulator, which the race detector does not see into: they run
# without it.
test-sim: sim ## the driver, the kernels and the simulator itself, without a GPU
	CGO_ENABLED=0 $(GO) $(TEST) -tags sim -timeout 30m $(GPU_PACKAGES)
	CGO_ENABLED=0 $(GOTLS) $(TEST) -tags sim -run "$$(scripts/tests-of.sh sim $(SIM_PACKAGES))" -timeout 30m $(SIM_PACKAGES)
	scripts/need.sh gcc=gcc /usr/include/stdlib.h=libc6-dev
	CGO_ENABLED=1 $(GO) $(TEST) -race -tags sim -timeout 30m $(filter-out ./kernels/...,$(GPU_PACKAGES)) ./kernels/sim/...
	CGO_ENABLED=1 $(GOTLS) $(TEST) -race -tags sim -run "$$(scripts/tests-of.sh sim $(SIM_PACKAGES))" -timeout 30m $(SIM_PACKAGES)

test-gorgonia: sim ## the GPU path on the simulator with CUDA's driver through gorgonia.org/cu, and its header against those of toolkits
	scripts/need.sh gcc=gcc /usr/include/stdlib.h=libc6-dev
	scripts/cuda-header.sh
	$(GORGONIA) $(GO) $(TEST) -race -tags "sim gorgonia" -timeout 30m ./gpu/...
	$(GORGONIA) $(GO) $(TEST) -tags "sim gorgonia" -timeout 30m -run 'TestGPU(EqualsCPU|Bulk|Signer)' ./provider

test-browser: sim ## with Chromium: through the proxy, the live page on the simulated GPU, the page of a report
	scripts/need.sh chromium=chromium
	CGO_ENABLED=0 $(GOTLS) $(TEST) -tags "sim browser" -run "$$(scripts/tests-of.sh browser ./cmd/tlsproxy)" -timeout 10m ./cmd/tlsproxy

test-prometheus: ## the alert rules, by promtool
	promtool=$$(scripts/promtool.sh build/.promtool) && $$promtool check rules deploy/prometheus/alerts.yaml && \
		$$promtool test rules deploy/prometheus/alerts_test.yaml

test-gpu: ## the GPU path on this machine's GPU
	$(GO) $(TEST) -tags gputest -timeout 60m $(GPU_PACKAGES)

test-gpu-gorgonia: ## the GPU path on this machine's GPU, with CUDA's driver through gorgonia.org/cu
	$(GORGONIA) $(GO) $(TEST) -tags "gputest gorgonia" -timeout 60m $(GPU_PACKAGES)

ptx: ## rebuild the committed PTX
	scripts/need.sh clang-19=clang-19 g++=g++
	kernels/build-ptx.sh
	kernels/sim/testkernels/build-ptx.sh

ptx-check: ## fail where the committed PTX is not what the sources give
	scripts/need.sh clang-19=clang-19 g++=g++
	kernels/build-ptx.sh --check
	kernels/sim/testkernels/build-ptx.sh --check

asm-check: ## fail where the committed assembly is not what its generator writes
	scripts/asm.sh

taint: ## fail where a secret decides a branch or an address, under valgrind
	scripts/taint.sh

counts: ## fail where an operation takes more instructions than recorded, under callgrind
	scripts/counts.sh

headline: build bin/goproxy ## a handshake's processor time: plain Go's proxy, ours, and a GPU's where there is one
	scripts/headline.sh bin build/headline

bench-peers: build bin/goproxy build/peers/caddy ## processor time beside Caddy, nginx, HAProxy and a plain Go proxy, as ratios
	scripts/need.sh taskset=util-linux jq=jq nginx=nginx haproxy=haproxy
	cp bin/tlsproxy bin/goproxy build/peers/
	CADDY_VERSION=$(CADDY) TRIXIE="$$(scripts/trixie.sh build/.trixie)" scripts/bench-peers.sh build/peers build/peers/results

overload: build bin/goproxy ## what a request takes while more handshakes come than can be computed, as a ratio
	scripts/need.sh taskset=util-linux jq=jq openssl=openssl
	scripts/overload.sh bin

build/peers/caddy:
	CGO_ENABLED=0 GOBIN=$(CURDIR)/build/peers $(GO) install -trimpath github.com/caddyserver/caddy/v2/cmd/caddy@$(CADDY)

bin/goproxy: $(shell git ls-files interop/goproxy interop/internal/certs)
	CGO_ENABLED=0 $(GO) build -o $@ ./interop/goproxy

test-soak: ## 20,000 handshakes in a row, and a million requests while backends die, through the proxy
	$(GOTLS) $(TEST) -tags soak -timeout 3h ./interop/...

lint: ## gofmt, vet, staticcheck, govulncheck, go.mod
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt would change: $$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	$(GOTLS) vet -tags "$(ALL_TAGS)" ./...
	$(GOTLS) vet -tags nogpu ./...
	$(TOOL) staticcheck -tags "$(ALL_TAGS)" ./...
	for tag in noasm valgrind; do $(GO) vet -tags $$tag ./provider/... && $(TOOL) staticcheck -tags $$tag ./provider/... || exit 1; done
	for tag in sim gputest; do $(GO) vet -tags $$tag $(GPU_PACKAGES) && \
		$(TOOL) staticcheck -tags $$tag $(GPU_PACKAGES) || exit 1; done
	scripts/need.sh gcc=gcc /usr/include/stdlib.h=libc6-dev
	for tags in sim,gorgonia gputest,gorgonia; do $(GORGONIA) $(GO) vet -tags $$tags $(GPU_PACKAGES) ./cmd/tlsproxy && \
		$(GORGONIA) $(TOOL) staticcheck -tags $$tags $(GPU_PACKAGES) ./cmd/tlsproxy || exit 1; done
	$(GOTLS) vet -tags "sim browser" ./cmd/tlsproxy ./cmd/tlsproxy/internal/report && \
		$(TOOL) staticcheck -tags "sim browser" ./cmd/tlsproxy ./cmd/tlsproxy/internal/report
	cd interop/grpc && $(GO) mod tidy -diff && $(GOTLS) vet ./... && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	cd interop/acme && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	cd deploy/prometheus && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	cd deploy/kubernetes && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	scripts/govulncheck.sh $(TOOL) govulncheck ./...

fuzz: ## each fuzz target for a short while
	scripts/fuzz.sh $(FUZZTIME)

bench: ## the KEM against ML-KEM in one run, as ratios by benchstat
	@mkdir -p build
	$(GO) test -run '^$$' -bench Ratios -benchtime 1x -count 6 ./internal/bench/kem | tee build/bench.txt
	$(TOOL) benchstat build/bench.txt

clean: ## remove what was built
	rm -rf bin build
