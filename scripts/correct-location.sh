#!/usr/bin/env bash
# Corrects history while the stream runs: hel-001 was put into Espoo by mistake, and stands in Helsinki.
# The demo has to run (scripts/start.sh). Run it again, and there is nothing left to correct.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ -x "$root/bin/smelt" ] || build
cd "$root"
bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi

step() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# table leaves out how many rows a table has.
table() { sed -E '/^[0-9]+ rows?$/d'; }

# try shows a command and runs it.
try() {
	printf '$ %s\n' "$1"
	eval "$1" | table
}

# beside shows how a query was answered before, and how it is now.
beside() {
	local old new
	printf '$ ./scripts/query.sh [--at %s] -c "%s"\n' "$tag" "$1"
	old=$(./scripts/query.sh --at "$tag" -c "$1" | table)
	new=$(./scripts/query.sh -c "$1" | table)
	paste -d ' ' <(sed 's/$/  /' <<<"$old") - <<<"$new" | sed 's/ *$//'
}

# counts counts silver at a snapshot, by sensor and hour.
counts() {
	./scripts/query.sh --at "$1" --csv -c "SELECT sensor_id, date_trunc('hour', event_time) AS hour, count(*) AS rows FROM silver GROUP BY ALL ORDER BY ALL"
}

case $(./bin/smelt status --json sensors 2>&1) in
*'"running":true'*) ;;
*)
	echo "The pipeline sensors does not run here: ./scripts/start.sh starts the demo." >&2
	exit 2
	;;
esac

step "1  Silver, by sensor and city: hel-001 stands in Helsinki"
try './scripts/query.sh -c "SELECT sensor_id, city, count(*) AS rows, max(_rebuilt_at) AS rebuilt FROM silver GROUP BY 1, 2 ORDER BY 1, 2"'

step "2  Correct its row in PostgreSQL"
try './bin/smelt locate hel-001 Helsinki Finland'

step "3  Replay the rows that were enriched with the old one; the stream goes on"
told=$(mktemp)
trap 'rm -f "$told"' EXIT
echo '$ ./bin/smelt backfill sensors --reference-changes --yes'
./bin/smelt backfill sensors --reference-changes --yes | tee "$told"
tag=$(sed -nE 's/^ +old answer .*--at ([^ ]+).*/\1/p' "$told")
[ -n "$tag" ] || exit 0 # it says that there is nothing to correct
read -r before after < <(sed -nE 's/^ +snapshot +([0-9]+) → ([0-9]+)$/\1 \2/p' "$told")

step "4  Each version stays"
try './bin/smelt history silver.sensors --limit 3'

step "5  The old answer, by its tag, and the new one; gold in the hours that are over"
beside "SELECT sensor_id, city, count(*) AS rows, strftime(max(_rebuilt_at), '%H:%M:%S') AS rebuilt FROM silver GROUP BY 1, 2 ORDER BY 1, 2"
beside "SELECT coalesce(city, 'all') AS city, count(DISTINCT hour) AS hours, sum(readings) AS readings FROM gold WHERE hour < '$(date -u +'%Y-%m-%d %H:00:00Z')' GROUP BY ROLLUP (city) ORDER BY 1"

step "6  Nothing lost, nothing twice"
was=$(counts "$before") is=$(counts "$after")
if [ "$was" != "$is" ]; then
	diff <(echo "$was") <(echo "$is") >&2 || true
	echo "✗ silver has other rows by sensor and hour at snapshot $after (>) than at $before (<)" >&2
	exit 7
fi
echo "✓ snapshots $before and $after have the same rows by sensor and hour"
try './bin/smelt verify sensors'
