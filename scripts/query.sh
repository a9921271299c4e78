#!/usr/bin/env bash
# A DuckDB shell over the lake; with -c, or SQL on standard input, it runs statements and leaves:
#   scripts/query.sh -c "SELECT count(*) FROM gold" --csv
# With --consistent each statement sees one state in which bronze, silver, quarantine and gold fit each other.
# With --at it shows the lake as it was at a time, a tag or a snapshot: --at 2h, --at "2026-11-29 22:10:05".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ -x "$root/bin/smelt" ] || build
exec "$root/bin/smelt" query "$@"
