# Only Go, git, make and a C compiler (for the race detector) are needed.
export GOFLAGS := -buildvcs=false

# Tools live in a module file of their own: what linters need must not move the
# versions that the server is built from.
TOOL := go tool -modfile=$(CURDIR)/go.tool.mod

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GIT_HASH := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -X main.version=$(VERSION) -X main.gitHash=$(GIT_HASH)

# Packages in which goroutines share state; they run once more under the race
# detector, with TiDB's own assertions switched on (its build tag intest), which
# its test kit asks for. The pointer check is off: client-go's buffer of a
# transaction does arithmetic on pointers that it does not allow.
RACE_PKGS  := ./kv/... ./ddl/... ./backfill ./ingest/... ./lightning/... ./event/... ./config/... ./internal/...
RACE_FLAGS := -race -short -tags intest,invariants -gcflags=all=-d=checkptr=0 -skip Unistore

# Of the SQL layer the tests in which most happens at a time: builds under writers, ends
# of statements and sessions, prepared statements, unique indexes. All of its tests
# would take an hour. They and server are not part of make test: TiDB has races of its
# own, most of all where it ends sessions, which come now and then.
RACE_SQL   := ^Test(BlockersAreShownAndEnded|BuildUnderWriters|CommitOfUnknownOutcomeIsWaitedFor|Kill|KilledInARequest|$\
PauseResume|PlansAreKeptWithTheirTables|Queue|SharedBuildUnderWriters|StatementsOutsideTheMetadataLock|UniqueDrain|$\
WaitForAnIndexThatIsBeingBuiltEnds)$$

# Races of TiDB's and of its libraries' are not told of.
RACE_ENV   := GORACE=suppressions=$(CURDIR)/.ci/race-suppressions

# Tests that run the binary. They know its code from outside only, so that go test
# would take an old result for a new one.
BINARY_PKGS := ./tests/blackbox ./tests/crash ./tests/fuzz ./tests/tidbsuite

# Assertions, ours and Pebble's, are on in tests; see internal/invariants.
CHECKED := -tags invariants

# Runs go test, prints its ok and FAIL lines as they come, and closes with the
# lists of failed and of skipped tests with their reasons, then with the failed ones
# without logs. A package has an hour, so that a test is not ended for a slow machine:
# what hangs is ended by its own deadline, and beside thirty programs on two cores
# tests/blackbox takes more than a quarter, sql longer.
GOTEST := $(TOOL) gotestsum --format standard-quiet --jsonfile $(CURDIR)/bin/tests.json \
	--post-run-command $(CURDIR)/.ci/failures -- -timeout 1h

# Modules of tests and benchmarks that need more than the server is built from.
TEST_MODULES := $(patsubst %/go.mod,%,$(wildcard tests/*/go.mod benchmarks/go.mod))

.PHONY: all
all: build

.PHONY: build
build: ## builds bin/fastddl
	go build -ldflags '$(LDFLAGS)' -o bin/fastddl ./cmd/fastddl

.PHONY: build-checked
build-checked: ## builds bin/fastddl-checked, with assertions
	go build $(CHECKED) -ldflags '$(LDFLAGS)' -o bin/fastddl-checked ./cmd/fastddl

.PHONY: demo
demo: build ## shows an index being built under load
	bin/fastddl demo

.PHONY: lint
lint: ## go vet, staticcheck, gofmt and the house rules
	go vet ./...
	$(TOOL) staticcheck ./...
	go test -count=1 ./internal/lint
	cd benchmarks && go vet ./... && $(TOOL) staticcheck ./...

.PHONY: test
test: build build-checked lint ## everything a change must pass; sql takes longest, so it begins
	$(GOTEST) $(CHECKED) ./sql $$(go list ./... | grep -vxF "$$(go list ./sql $(BINARY_PKGS))")
	FASTDDL_BIN=$(CURDIR)/bin/fastddl-checked $(GOTEST) -count=1 $(BINARY_PKGS)
	set -e; for m in $(TEST_MODULES); do (cd $$m && FASTDDL_BIN=$(CURDIR)/bin/fastddl $(GOTEST) -count=1 ./...); done
	$(GOTEST) -tags intest,invariants ./tests/compare
	$(GOTEST) $(RACE_FLAGS) $(RACE_PKGS)

.PHONY: test-long
test-long: build build-checked ## randomised tests for half an hour each, 100,000 statements compared with unistore, TiDB's own tests, sysbench at full size
	FASTDDL_BIN=$(CURDIR)/bin/fastddl-checked FASTDDL_LONG=1 FASTDDL_CRASH_TIME=30m FASTDDL_FUZZ_TIME=10m $(GOTEST) $(CHECKED) -count=1 -timeout 6h ./...
	set -e; for m in $(TEST_MODULES); do (cd $$m && FASTDDL_BIN=$(CURDIR)/bin/fastddl-checked FASTDDL_LONG=1 $(GOTEST) -count=1 -timeout 2h ./...); done
	FASTDDL_COMPARE_STATEMENTS=100000 $(GOTEST) -count=1 -timeout 2h -tags intest,invariants ./tests/compare

.PHONY: mutations
mutations: ## breaks the code in ways that a test has to notice, one by one
	FASTDDL_LONG=1 $(GOTEST) -count=1 -timeout 2h ./tests/mutation

.PHONY: race
race: ## the packages whose goroutines share state, at full length under the race detector
	$(GOTEST) $(RACE_FLAGS) -short=false -count=1 $(RACE_PKGS)
	$(RACE_ENV) $(GOTEST) $(RACE_FLAGS) -short=false -count=1 -run '$(RACE_SQL)' ./sql
	$(RACE_ENV) $(GOTEST) $(RACE_FLAGS) -short=false -count=1 ./server

.PHONY: bench
bench: build ## Go benchmarks, then ADD INDEX from end to end
	go test -run '^$$' -bench . -benchmem ./...
	bin/fastddl bench addindex --rows 2000000

.PHONY: bench-peers
bench-peers: build bench-tool ## ADD INDEX of this and of other systems; BENCH_FLAGS: see bin/fastddl-bench peers --help
	bin/fastddl-bench peers $(BENCH_FLAGS)

.PHONY: bench-scale
bench-scale: build bench-tool ## ADD INDEX by rows and by workers; BENCH_FLAGS: see bin/fastddl-bench scale --help
	bin/fastddl-bench scale $(BENCH_FLAGS)

.PHONY: bench-tool
bench-tool:
	cd benchmarks && go build -o ../bin/fastddl-bench .

.PHONY: fmt
fmt:
	gofmt -w $$(git ls-files '*.go')

.PHONY: clean
clean:
	rm -rf bin

.PHONY: help
help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'
