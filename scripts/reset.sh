#!/usr/bin/env bash
# Stops smelt and wipes the embedded stack's data: asks first, unless given --yes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ -x "$root/bin/smelt" ] || build
exec "$root/bin/smelt" reset "$@"
