#!/usr/bin/env bash
# Passes all tests: format, vet, staticcheck, govulncheck, the Go tests with the race detector, and the demo end to end.
# Sets up what it needs; beyond modules, DuckDB's extensions and Go's vulnerability database it uses no network but loopback.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

step() { printf '\n== %s\n' "$*"; }

step "build"
build
bin/smelt version

step "gofmt"
unformatted=$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +)
if [ -n "$unformatted" ]; then
	printf 'gofmt -w these:\n%s\n' "$unformatted" >&2
	exit 1
fi

step "vet"
go vet -tags bench ./...
go vet -C tools ./...

step "staticcheck"
go tool staticcheck -tags bench ./...
go tool -C tools staticcheck ./...

step "known vulnerabilities"
# The database is asked for once, within 10 s: a machine that does not reach it goes on without.
database=${GOVULNDB:-https://vuln.go.dev}
if [ "${database#http}" != "$database" ] && ! curl -fsS --max-time 10 -o /dev/null "$database/index/db.json" 2>/dev/null; then
	echo "skipped: $database cannot be reached, so whether a dependency has a known vulnerability is not known" >&2
else
	go tool govulncheck ./...
fi

step "DuckDB's extensions, for the shell's tests"
bin/smelt extensions
export SMELT_EXTENSIONS=$SMELT_HOME/extensions

step "tests, with the race detector"
go test -race -tags bench -timeout 30m ./...
go test -C tools -race ./...

step "what C may keep of Go's memory"
GOEXPERIMENT=cgocheck2 go test ./internal/columns ./internal/events ./internal/duck

step "end to end"
scripts/e2e.sh

step "all passed"
