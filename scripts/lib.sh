# Shared by the scripts here; sourced, not run.
# Finds the checkout, the state folder and the binary, whatever the caller's folder is.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export SMELT_HOME=${SMELT_HOME:-$root/.smelt}
case $SMELT_HOME in /*) ;; *) SMELT_HOME=$PWD/$SMELT_HOME ;; esac

# build makes bin/smelt, when there is a Go; one that is there already will do without.
build() {
	if ! command -v go >/dev/null; then
		[ -x "$root/bin/smelt" ] && return
		echo "smelt is built with Go 1.26 and a C compiler; 'go' is not on the PATH." >&2
		exit 2
	fi
	if ! command -v "${CC:-cc}" >/dev/null && ! command -v gcc >/dev/null; then
		echo "smelt is built with Go 1.26 and a C compiler; no C compiler is on the PATH (Debian: apt-get install gcc libc6-dev)." >&2
		exit 2
	fi
	[ -x "$root/bin/smelt" ] || echo "building bin/smelt: the first time takes a few minutes …" >&2
	(cd "$root" && CGO_ENABLED=1 go build -o bin/smelt ./cmd/smelt)
}
