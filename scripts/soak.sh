#!/usr/bin/env bash
# Lets a lake run under load while its processes are killed, its wires fail and its history is corrected, and
# compares every layer with the truth at the end:
#   scripts/soak.sh [MINUTES [SEED]] [--seed N] [--report FILE]
# 30 minutes without one. The seed is printed, and given again it makes the same events and the same plan of
# troubles. --report writes what happened as markdown. Bronze is merged when an hour is over: a run that is begun in
# the second half of one has that in it, too. State and logs are in a folder of their own, which is deleted unless
# something was wrong. Exit codes: 0 no discrepancy, 1 discrepancies, 130 interrupted, anything else: it could not be run.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
	sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

minutes=30 seed=0 report=
positional=()
while [ $# -gt 0 ]; do
	case $1 in
	--seed) [ $# -gt 1 ] || usage; seed=$2; shift ;;
	--seed=*) seed=${1#*=} ;;
	--report) [ $# -gt 1 ] || usage; report=$2; shift ;;
	--report=*) report=${1#*=} ;;
	-*) usage ;;
	*) positional+=("$1") ;;
	esac
	shift
done
[ ${#positional[@]} -le 2 ] || usage
[ ${#positional[@]} -lt 1 ] || minutes=${positional[0]}
[ ${#positional[@]} -lt 2 ] || seed=${positional[1]}
case $report in '' | /*) ;; *) report=$PWD/$report ;; esac

build
"$root/bin/smelt" extensions # DuckDB's, for the queries
dir=$(mktemp -d "${TMPDIR:-/tmp}/smelt-soak.XXXXXX")
chmod 755 "$dir" # PostgreSQL, which does not run as root, has to get through
cd "$root"
go build -C tools -o "$dir/soak" ./soak
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD 2>/dev/null || commit="$commit, with changes"
exec "$dir/soak" -minutes "$minutes" -seed "$seed" -smelt "$root/bin/smelt" -extensions "$SMELT_HOME/extensions" \
	-dir "$dir" -report "$report" -commit "$commit"
