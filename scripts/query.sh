#!/usr/bin/env bash
# A DuckDB shell over the lake; with -c, or SQL on standard input, it runs statements and leaves:
#   scripts/query.sh -c "SELECT count(*) FROM gold" --csv
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ -x "$root/bin/smelt" ] || build
exec "$root/bin/smelt" query "$@"
