#!/usr/bin/env bash
# Builds smelt and starts the demo: Kafka, S3 and PostgreSQL, a generator of sensor readings, the pipelines.
# With --compose it does so on the real components, in containers.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# secret gives 24 random letters and digits.
secret() { head -c 256 /dev/urandom | LC_ALL=C tr -dc 'A-Za-z0-9' | head -c 24; }

compose() {
	if ! docker info >/dev/null 2>&1; then
		echo "No Docker engine answers. Start one, or run ./scripts/start.sh without --compose for the embedded stack." >&2
		exit 2
	fi
	cd "$root"
	[ -z "$(tail -c 1 .env 2>/dev/null)" ] || echo >>.env # its last line has no end yet
	for name in MINIO_ROOT_PASSWORD POSTGRES_PASSWORD SMELT_HTTP_TOKEN; do
		grep -qs "^$name=" .env && continue
		(umask 077 && printf '%s=%s\n' "$name" "$(secret)" >>.env)
		echo "wrote a new $name to .env" >&2
	done
	docker compose up --build --detach --wait
	echo "MinIO console http://127.0.0.1:9001 (user and password: .env) · Kafka UI http://127.0.0.1:8080 · smelt http://127.0.0.1:8088/readyz, and with the token of .env /metrics"
	echo "Sensor Stream is queryable."
}

if [ "${1:-}" = --compose ]; then
	shift
	compose "$@"
	exit
fi
build
# The shell's DuckDB extensions; without them everything but the shell works.
"$root/bin/smelt" extensions || echo "The shell (query.sh) needs DuckDB's extensions, which could not be fetched; everything else goes on." >&2
exec "$root/bin/smelt" start "$@"
