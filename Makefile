SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

GO      ?= go
FUZZ    ?= 10s
COUNT   ?= 10

# The limit of one package's tests. Beside other processes they take many times as long.
TEST_TIMEOUT ?= 60m
RACE_TIMEOUT ?= 120m

# Tests of mounts and servers wait more than they compute: two packages run for each processor,
# and four tests of a package.
PACKAGES_AT_ONCE := $(shell echo $$(( 2 * $$(nproc) )))
TESTS_AT_ONCE    := $(shell echo $$(( 4 * $$(nproc) )))

# All packages. The longest are first, so that the others run beside them.
PACKAGES := ./integration ./cmd/xetfs ./...

# Of bench-mount: MiB of each large file, measured rounds, files of the largest tree.
BENCH_MIB     ?= 512
BENCH_ROUNDS  ?= 5
BENCH_ENTRIES ?= 1000000

# Tests that want numpy and safetensors run this Python; setup makes it.
export XETFS_PYTHON ?= $(shell ./integration/setup.sh --python)

.PHONY: all build dist dist-test boot demo setup test race repeat fuzz bench bench-mount bench-links bench-hub lint lint-more interop monitor lies soak check golden clean

all: check build

build:            ## the binary, static
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/xetfs ./cmd/xetfs

dist:             ## packages for linux amd64 and arm64, in dist/
	./cmd/xetfs/packaging/release/build.sh

dist-test:        ## two builds of the packages are the same, and they install, upgrade and go, as root; .ci/run does not call it
	$(GO) test -count=1 -timeout=30m -v -run='^Test(Release|SBOM)$$' ./integration -release
	./integration/packages.sh

boot: build       ## the units in a booted systemd, and a root file system on a mount, as root; .ci/run does not call it
	./integration/boot.sh bin/xetfs
	./integration/rootfs.sh bin/xetfs

demo: build       ## publishes a folder twice, mounts both versions, compares every byte
	./integration/demo.sh bin/xetfs

setup:            ## programs that tests call; as root it installs them
	@./integration/setup.sh

test: setup       ## everything, layers_test.go included
	$(GO) test -count=1 -timeout=$(TEST_TIMEOUT) -p=$(PACKAGES_AT_ONCE) -parallel=$(TESTS_AT_ONCE) $(PACKAGES)

race: setup
	$(GO) test -count=1 -timeout=$(RACE_TIMEOUT) -race $(PACKAGES)

repeat:           ## make test 20 times beside load, for tests that fail rarely; hours
	./integration/repeat.sh

fuzz:             ## every fuzz target for $(FUZZ)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' codec cache reconstruct fs cmd | \
	while IFS=: read -r file func; do \
	  $(GO) test -run='^$$' -fuzz="^$${func#func }$$" -fuzztime=$(FUZZ) "./$$(dirname "$$file")"; \
	done

bench:            ## ten runs, ready for benchstat
	$(GO) test -run='^$$' -bench=. -benchmem -count=$(COUNT) ./... | tee bench.txt

bench-mount: setup ## the mount beside other file systems, as root, on a quiet machine: integration/bench/README.md
	./integration/bench/run -bench-mib $(BENCH_MIB) -bench-rounds $(BENCH_ROUNDS) -bench-entries $(BENCH_ENTRIES)

bench-links:      ## reads from a web server and a bucket over links of 25 ms, beside rclone, as root, on a quiet machine
	./integration/bench/run -run '^TestBenchLinks$$' -bench-links -bench-mib $(BENCH_MIB) -bench-rounds $(BENCH_ROUNDS)

bench-hub:        ## mounts of the Hub, beside hf-mount and hf_xet if they are there, as root, on a quiet machine: integration/bench/README.md
	./integration/bench/run -run '^TestBenchHub$$' -bench-hub -bench-mib $(BENCH_MIB) -bench-rounds $(BENCH_ROUNDS)

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

lint-more:        ## golangci-lint; slow to build the first time, so .ci/run calls it, make test does not
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run --config .ci/golangci.yml

interop: setup    ## other Xet clients against us and us against them; .ci/run calls it
	./integration/interop/run

monitor:          ## status page and --html in Chromium, metrics and alerts in Prometheus; .ci/run calls it
	./integration/monitor/run

lies:             ## 3,200 lies of a web server and of a folder; make test has 100
	$(GO) test -count=1 -timeout=1h -v -run='^TestF55_' ./cmd/xetfs -lies=3200

soak: setup build ## minutes and gigabytes: packs, publishes and mounts that are killed hundreds of times, large files, many files, disks that come back
	$(GO) test -count=1 -timeout=2h -v -run='^(TestPackMemory|TestO30_PackKilled|TestO30_PublishKilled|TestLargeTree)$$' ./integration -large-tree=10000000 -pack-large -pack-kills=100 -publish-kills=200
	$(GO) test -count=1 -timeout=1h -v -run='^(TestL17_OpenTerms|TestL18_WindowOfTerms|TestMemory|TestS02_PublishNames|TestOpensOverManyShards|TestHubMemory)$$' ./integration -full-size
	$(GO) test -count=1 -timeout=1h -v -run='^(TestO32_BucketFollow|TestRemoteFlapping|TestO27_ManyReaders|TestO31_PublishToBucket|TestP9_Links|TestBucketBehindTLS|TestHubAnswers)$$' ./integration -full-size
	$(GO) test -count=1 -timeout=2h -v -run='^TestO30_StoreFaults$$' ./integration -store-faults=1
	$(GO) test -count=1 -timeout=1h -v -run='^TestS31_' ./cmd/xetfs -walk-faults
	$(GO) test -count=1 -timeout=1h -v -run='^TestS31_WalkFaults$$' ./integration -walk-faults=1
	$(GO) test -count=1 -timeout=1h -v -run='^(TestD01_D02_D03_NoRoom|TestD05_D07_DiskGone|TestD15_MountKilled)$$' -parallel=8 ./integration -cache-kills=500 -cache-patience
	$(GO) test -count=1 -timeout=1h -v -run='^TestK46_' ./integration -automount-rounds=100
	$(GO) test -count=1 -timeout=1h -v -run='^TestPush(BesideReaders|Killed)$$' ./integration -push-time=10m -push-kills=200
	$(GO) test -count=1 -timeout=1h -v -run='^TestGetKilled$$' ./integration -get-kills=50
	./integration/namespaces.sh bin/xetfs
	./integration/interop/run -v -timeout=1h -run='^TestHubManyClients$$' -clients=64 -clients-time=10m -clients-rate=125000000
	$(GO) test -count=1 -timeout=1h -v -run='^TestShortLives$$' ./cache/origin/cas -lives=2m

check: lint race  ## what must pass before a commit

golden:           ## rewrite golden files; read the diff before you commit it
	GOLDEN=update $(GO) test -timeout=$(TEST_TIMEOUT) ./...

clean:
	rm -rf bin bench.txt
