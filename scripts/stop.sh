#!/usr/bin/env bash
# Stops what start.sh has started; what was read is brought through first.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if [ ! -x "$root/bin/smelt" ]; then
	echo "bin/smelt is not there, so nothing that it started runs." >&2
	exit
fi
exec "$root/bin/smelt" stop "$@"
