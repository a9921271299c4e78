#!/usr/bin/env bash
# Tries smelt with components and engines that are not its own, without containers. Each gets a lake, ports and a
# folder of its own, which end with it.
#   scripts/interop.sh trino       Trino reads the tables, and compacts one while the line runs
#   scripts/interop.sh kafka       Apache Kafka: transactions, compaction, added partitions, a kill; log-ins, mTLS, ACLs; topics made anew, logs cut
#   scripts/interop.sh minio       MinIO: the store's contract, a kill, a bucket that becomes read-only, a wrong key
#   scripts/interop.sh spark       Spark reads the tables, and compacts one while the line runs
#   scripts/interop.sh pyiceberg   pyiceberg reads silver, quarantine and gold, through the SQL catalog
#   scripts/interop.sh duckdb      DuckDB reads the tables, as smelt connect duckdb tells it
#   scripts/interop.sh all         one after the other
# What they need is downloaded once, into the state folder. Where something cannot be had it says "skipped", and why.
# Exit codes: 0 passed, 77 skipped, anything else failed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$root/scripts/demo.sh"
. "$root/scripts/programs.sh"
. "$root/scripts/interop/common.sh"

suite=interop

components=(trino kafka minio spark pyiceberg duckdb)

usage() {
	sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

# all tries every component, and ends with a line for each.
all() {
	local component code worst=0 verdicts=()
	for component in "${components[@]}"; do
		say "== $component"
		code=0
		"${BASH_SOURCE[0]}" "$component" || code=$?
		case $code in
		0) verdicts+=("✓ $component passed") ;;
		"$skipped") verdicts+=("- $component SKIPPED: not tried") ;;
		130) exit 130 ;;
		*) verdicts+=("✗ $component FAILED") ;;
		esac
		case $code:$worst in
		0:*) ;;
		"$skipped":0) worst=$skipped ;;
		"$skipped":*) ;;
		*) worst=1 ;;
		esac
	done
	printf '%s\n' "${verdicts[@]}"
	exit "$worst"
}

case " ${components[*]} all " in
*" ${1:-none} "*) ;;
*) usage ;;
esac
[ "$1" != all ] || all
. "$root/scripts/interop/$1.sh"
component=$1
"try_$1"
echo "interop $1: passed"
