# Shared by the scripts that try smelt out on a lake of their own; sourced after lib.sh, not run.

say() { printf -- '-- %s\n' "$*"; }

# free_port prints a port, of the 2,500 from the given one on, at which nobody listens. Callers that give places
# that far apart never get the same one, and below 32768 no connection that the system opens takes it meanwhile.
free_port() {
	local port
	while :; do
		port=$(($1 + RANDOM % 2500))
		if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
}

kept=$SMELT_HOME # what is downloaded stays here

# own_lake gives the script a state folder and ports of its own; they end with it.
own_lake() {
	SMELT_HOME=$(mktemp -d "${TMPDIR:-/tmp}/smelt-$1.XXXXXX")
	chmod 755 "$SMELT_HOME" # PostgreSQL, which does not run as root, has to get through
	trap 'code=$?; leave_lake; [ "$code" = 0 ] || echo "${0##*/}: failed" >&2' EXIT
	mkdir -p "$kept/extensions"
	ln -s "$kept/extensions" "$SMELT_HOME/extensions"
	SMELT_KAFKA_PORT=$(free_port 20000) SMELT_S3_PORT=$(free_port 22500) SMELT_CONSOLE_PORT=$(free_port 25000)
	SMELT_POSTGRES_PORT=$(free_port 27500) SMELT_HTTP=127.0.0.1:$(free_port 30000)
	export SMELT_HOME SMELT_KAFKA_PORT SMELT_S3_PORT SMELT_CONSOLE_PORT SMELT_POSTGRES_PORT SMELT_HTTP
}

# leave_lake stops all that runs on it and deletes it.
leave_lake() {
	"$root/bin/smelt" reset --yes >/dev/null 2>&1 || true
	rm -rf "$SMELT_HOME"
}

query() { "$root/scripts/query.sh" --csv -c "$1" | tail -n +2; }

# await tries a command until it succeeds, for a minute at most, or what patience says in seconds.
await() {
	local end=$((SECONDS + ${patience:-60}))
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		read -rt "${every:-0.5}" <> <(:) || true
	done
}

# pid prints the process that runs a command of smelt in the background; nothing once it has ended of itself.
pid() { head -n 1 "$SMELT_HOME/run/$1.pid"; }
