# Only Go, git, make and a C compiler (for the race detector) are needed. Tests of what other programs
# read are skipped without these: see .ci/run.
export GOFLAGS := -buildvcs=false

# Tools live in a module file of their own: what linters need must not move the
# versions that the server is built from.
TOOL := go tool -modfile=$(CURDIR)/go.tool.mod

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GIT_HASH := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -X main.version=$(VERSION) -X main.gitHash=$(GIT_HASH)

# Assertions, ours and Pebble's, are on in tests; see internal/invariants.
CHECKED := -tags invariants

# Package backfill and those below it, without backfill/equality: that is one goroutine and TiDB.
BACKFILL := ./backfill ./backfill/encode ./backfill/keyrange ./backfill/execution ./backfill/compare

# Packages in which goroutines share state run under the race detector only, with TiDB's own
# assertions switched on (its build tag intest), which its test kit asks for. The pointer
# check is off: client-go's buffer of a transaction does arithmetic on pointers that it does
# not allow.
RACE_PKGS  := ./flow/... ./kv/... ./ddl/... $(BACKFILL) ./ingest/... ./lightning/... ./load/... ./event/... ./config/... \
	$$(go list ./internal/... | grep -v internal/lint)
RACE_FLAGS := -race -short -tags intest,invariants -gcflags=all=-d=checkptr=0

# Tests of those packages that run without it: one goroutine at a time works through much
# data, or the work is unistore's, which has races of its own.
SEQUENTIAL := Unistore|^Test(RegionsAfterAStart|FullDisk|ConformanceOnDisk|LargeTransaction|ImportBesideDamage|$\
CompareOfWholeIndexMissing|TempDiskFull|TempFolder(Removed|SmallerThanTheQuota|ThatDoesNotTellItsRoom)|RunUnderDiskQuota|RunInManyRuns|SpotCheck|$\
CheckTable|FlippedBitOfAUnitIsFound|AutoReadsEverythingWhereAProofIsMissing|EntriesFromBeforeTheImportAreFound|$\
BuildWithASubtaskThatWasWrongIsReadInFull|CollectionDuringTheBuildLeavesTheSample|BatchLargerThanTheMemory|LargePartsFitIntoRows|PartitionsResume|DuplicatesAreListedInOrder|RunFilesAreBounded|RunIndexesAreAccounted|$\
QuotaTooSmallForOneFile|Source|FilesSideBySide|EstimatedSize|OverlappingFilesAreFew|RandomlyPushedAsAtTheRoot|PushedAsAtTheRoot|PagesOfGroups|$\
AdminChecksum|AnswersOutliveTheirChunks|LoadWithinItsQuotas|LoadOfLongRows|SQL(ManyGroups|BulkDML|DivisionByZero))$$
SEQUENTIAL_PKGS := ./backfill ./backfill/compare ./ingest ./lightning ./load ./kv/pebblekv ./kv/embedded ./kv/embedded/cop ./kv/tikv/sstimport

# Of the SQL layer the tests in which most happens at a time: builds under writers, ends
# of statements and sessions, prepared statements, unique indexes. All of its tests
# would take an hour. They and server are not part of make test: TiDB has races of its
# own, most of all where it ends sessions, which come now and then.
RACE_SQL   := ^Test(BlockersAreShownAndEnded|BuildUnderWriters|CommitOfUnknownOutcomeIsWaitedFor|Kill|KilledInARequest|$\
PauseResume|PlansAreKeptWithTheirTables|BuildsOfATableRunInTurn|SharedBuildUnderWriters|StatementsOutsideTheMetadataLock|UniqueDrain|$\
WaitForAnIndexThatIsBeingBuiltEnds)$$

# Races of TiDB's and of its libraries' are not reported.
RACE_ENV   := export GORACE=suppressions=$(CURDIR)/.ci/race-suppressions;

# The tests of the SQL layer wait more than they work, one after the other, for a quarter of an
# hour: TiDB has one domain in a process. They run in two, those of SQL_LAST and all others.
SQL_LAST   := ^(Test|Fuzz|Example)[S-Z]

# Tests that run the binary.
BINARY_PKGS := ./tests/blackbox ./tests/tidbsuite ./tests/fuzz ./tests/crash ./tests/deploy

# $(call gotest,NAME,FLAGS,PACKAGES) runs go test, prints its ok and FAIL lines as they come and
# a summary at the end. bin/tests-NAME.json gets all output and bin/tests-NAME.cmd the command
# without packages, for cmd/testreport. A package has an hour, so that a test is not
# ended for a slow machine: what hangs is ended by its own deadline.
define gotest
$(file >$(CURDIR)/bin/tests-$(1).cmd,FASTDDL_BIN=$(CHECKED_BIN) go test -count=1 $(2))FASTDDL_BIN=$(CHECKED_BIN) \
	$(TOOL) gotestsum --format standard-quiet --hide-summary=failed,output,errors \
		--jsonfile $(CURDIR)/bin/tests-$(1).json -- -timeout 1h -vet=off $(2) $(3)
endef
# $(call report,NAME) ends a command that has run tests: it says what failed, and keeps the exit status.
report = status=$$?; go run ./cmd/testreport bin/tests-$(1).json; exit $$status
CHECKED_BIN := $(CURDIR)/bin/fastddl-checked
$(shell mkdir -p $(CURDIR)/bin)

# A third of what the collector of garbage does by default. Processes of tests are small, and servers
# that run by themselves set their own. Not above 200 under the race detector, which multiplies memory.
test-sql test-sql-last test-plain test-sequential: export GOGC := 300
test-race: export GOGC := 200

# Modules of tests and benchmarks that need more than the server is built from.
TEST_MODULES := tests/cluster $(filter-out tests/cluster,$(patsubst %/go.mod,%,$(wildcard tests/*/go.mod benchmarks/go.mod)))

.PHONY: all
all: build

.PHONY: build
build: ## builds bin/fastddl
	go build -ldflags '$(LDFLAGS)' -o bin/fastddl ./cmd/fastddl

# Stacks need no DWARF, and linking that takes as long as the rest. Tests of faults need the symbols.
.PHONY: build-checked
build-checked: ## builds bin/fastddl-checked, with assertions
	go build $(CHECKED) -ldflags '$(LDFLAGS) -w' -o bin/fastddl-checked ./cmd/fastddl

.PHONY: demo
demo: build ## shows an index being built under load
	bin/fastddl demo

.PHONY: lint
lint: ## go vet, staticcheck, gofmt and the house rules
	go vet $(CHECKED) ./...
	$(TOOL) staticcheck $(CHECKED) ./...
	go test -count=1 ./internal/lint
	go vet -tags benchflow ./flow ./kv/pebblekv
	go test -count=1 -tags benchflow ./flow
	cd benchmarks && go vet ./... && $(TOOL) staticcheck ./...

.PHONY: test
test: build-checked ## everything a change must pass
	@rm -f bin/tests-* bin/lint.*
	@$(MAKE) --no-print-directory -k -j6 test-lint test-race test-binaries test-sql-last test-sql test-modules test-plain test-sequential; \
		status=$$?; cat bin/lint.failed 2>/dev/null; (exit $$status); $(call report,*)

# The stages of test. What takes longest begins first, so that none is left over when the others
# have ended; sql and tests/cluster wait much and run beside what works. build-checked has compiled
# what several of them need.
.PHONY: test-lint test-binaries test-sql test-sql-last test-plain test-race test-sequential test-modules
test-lint:
	@$(MAKE) --no-print-directory lint >bin/lint.log 2>&1 || { mv bin/lint.log bin/lint.failed; cat bin/lint.failed; false; }
test-binaries:
	$(call gotest,binaries,-p 2 $(CHECKED),$(BINARY_PKGS))
test-sql-last:
	$(call gotest,sql-last,$(CHECKED) -run '$(SQL_LAST)',./sql)
test-sql:
	$(call gotest,sql,$(CHECKED) -skip '$(SQL_LAST)',./sql)
test-plain:
	$(call gotest,plain,-p 2 $(CHECKED),$$(go list ./... | grep -vxF "$$(go list ./sql ./internal/lint $(BINARY_PKGS) $(RACE_PKGS))"))
test-race:
	$(call gotest,race,-p 2 $(RACE_FLAGS) -skip '$(SEQUENTIAL)',$(RACE_PKGS))
test-sequential:
	$(call gotest,sequential,$(CHECKED) -run '$(SEQUENTIAL)',$(SEQUENTIAL_PKGS))
test-modules: $(TEST_MODULES:%=test-module-%)

.PHONY: $(TEST_MODULES:%=test-module-%)
$(TEST_MODULES:%=test-module-%): test-module-%:
	cd $* && $(call gotest,$(subst /,-,$*),$(CHECKED) -count=1,./...)

.PHONY: check
check: ## what a change must pass before a commit
	@.ci/check

.PHONY: test-long
test-long: export FASTDDL_LONG := 1
test-long: build-checked ## randomised tests for half an hour each, 100,000 statements compared with unistore, TiDB's own tests, sysbench at full size
	@rm -f bin/tests-*
	$(call gotest,long,$(CHECKED) -count=1 -timeout 12h,./...); $(call report,long)
	@$(MAKE) --no-print-directory -k test-modules; $(call report,*)

.PHONY: mutations
mutations: ## breaks the code in ways that a test has to notice, one by one
	FASTDDL_LONG=1 $(call gotest,mutations,-count=1 -timeout 6h,./tests/mutation); $(call report,mutations)

.PHONY: race
race: ## the packages whose goroutines share state, at full length under the race detector
	$(call gotest,race-long,$(RACE_FLAGS) -short=false -count=1 -skip Unistore,$(RACE_PKGS)); $(call report,race-long)
	$(RACE_ENV) $(call gotest,race-sql,$(RACE_FLAGS) -short=false -count=1 -run '$(RACE_SQL)',./sql); $(call report,race-sql)
	$(RACE_ENV) $(call gotest,race-server,$(RACE_FLAGS) -short=false -count=1,./server); $(call report,race-server)

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

.PHONY: bench-model
bench-model: bench-tool ## the tables of docs/scale.md, by a model of builds on larger clusters; other builds: bin/fastddl-bench model --help
	bin/fastddl-bench model --doc docs/scale.md

.PHONY: bench-explain
bench-explain: build bench-tool ## what EXPLAIN says of index builds beside what they take; BENCH_FLAGS: see bin/fastddl-bench explain --help
	bin/fastddl-bench explain --doc docs/performance.md $(BENCH_FLAGS)

.PHONY: bench-load
bench-load: build bench-tool ## files into a table with indexes, beside PostgreSQL and MariaDB; BENCH_FLAGS: see bin/fastddl-bench load --help
	bin/fastddl-bench load --doc docs/performance.md $(BENCH_FLAGS)

# An environment variable leaves mechanisms of flow control out of this binary, which is for that benchmark only.
.PHONY: bench-flow
bench-flow: bench-tool ## builds beside loads, with each mechanism of flow control left out; BENCH_FLAGS: see bin/fastddl-bench flow --help
	go build -tags benchflow -ldflags '$(LDFLAGS)' -o bin/fastddl-benchflow ./cmd/fastddl
	bin/fastddl-bench flow $(BENCH_FLAGS)

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
