# MinIO, built as a program of its own: the store's contract, the line end to end, and what goes wrong with a server;
# sourced by interop.sh.

minio_version=v0.0.0-20260212201848-7aac2a2c5b7c
mc_version=v0.0.0-20250313080218-cf909e1063a9
minio_password=minio-root-password
lake_password=lake-user-password

try_minio() {
	need go
	cached "minio-$minio_version" built_from "github.com/minio/minio@$minio_version" minio
	cached "mc-$mc_version" built_from "github.com/minio/mc@$mc_version" mc
	lake_of_its_own
	s3_port=$(free_port 17500)
	start_minio
	make_user
	contract
	start_stack
	export SMELT_S3_ENDPOINT=http://127.0.0.1:$s3_port SMELT_S3_ACCESS_KEY=lake SMELT_S3_SECRET_KEY=$lake_password
	line_on_minio
	minio_killed
	read_only
	wrong_key
	"$root/bin/smelt" verify
}

# built_from builds a command in a module of its own: it is no part of smelt's.
built_from() { # module@version, the program's name
	printf 'module interop\n\ngo 1.26\n' >go.mod && go get "$1" && go build -o "$2" "${1%@*}"
}

start_minio() {
	local began=$SECONDS
	MINIO_ROOT_USER=root MINIO_ROOT_PASSWORD=$minio_password MINIO_BROWSER=off begin minio \
		"$kept/interop/minio-$minio_version/minio" server --quiet --address "127.0.0.1:$s3_port" "$SMELT_HOME/minio"
	minio=$!
	must "MinIO did not start in time" await minio_started
	say "MinIO runs, after $((SECONDS - began)) s"
}
minio_started() { curl -fsS "http://127.0.0.1:$s3_port/minio/health/ready" >/dev/null 2>&1; }

mc() { "$kept/interop/mc-$mc_version/mc" --quiet --no-color --config-dir "$SMELT_HOME/mc" "$@"; }

# make_user makes the bucket, and a user who may do in it what smelt does, and no more.
make_user() {
	mc alias set minio "http://127.0.0.1:$s3_port" root "$minio_password" >/dev/null
	mc mb minio/lake >/dev/null
	allow '"s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation", "s3:PutObject", "s3:DeleteObject"'
	mc admin user add minio lake "$lake_password" >/dev/null
	mc admin policy attach minio lake --user lake >/dev/null
}

# allow says anew what the user may do.
allow() { # actions
	cat >"$SMELT_HOME/policy.json" <<-END
		{"Version": "2012-10-17", "Statement": [
		  {"Effect": "Allow", "Action": [$1], "Resource": ["arn:aws:s3:::lake", "arn:aws:s3:::lake/*"]}
		]}
	END
	mc admin policy create minio lake "$SMELT_HOME/policy.json" >/dev/null
}

contract() {
	say "the contract of a store"
	(cd "$root" && SMELT_TEST_S3_ENDPOINT=http://127.0.0.1:$s3_port SMELT_TEST_S3_ACCESS_KEY=root \
		SMELT_TEST_S3_SECRET_KEY=$minio_password go test -count=1 -v -run TestContractOfServer ./internal/store) |
		grep -E '^ *--- |^(ok|FAIL|PASS)|^ +[a-z_]+\.go:' | sed 's/^/  /'
}

line_on_minio() {
	say "the demo, on MinIO"
	"$root/scripts/start.sh" | tail -n 2
	readings minio-001 500 2026-01-01 | "$root/bin/smelt" produce --topic sensor.readings
	must "500 readings did not arrive in gold, and 5 in quarantine, in time" await arrived minio-001
	"$root/bin/smelt" verify
	"$root/bin/smelt" locate hel-001 Helsinki Finland >/dev/null
	"$root/bin/smelt" backfill sensors --reference-changes --yes | sed -n 1p
	"$root/bin/smelt" verify
}

# flood sends readings at a rate, in the background.
flood() { # how many
	begin flood "$root/bin/smelt" generate --count "$1" --rate 50 --history 0s
	flood=$!
}
# flooded waits until all that was sent is in silver or quarantine, and that the same pipeline brought it there.
flooded() { # records
	wait "$flood" || fail "the generator failed"
	must "bronze has $(query "SELECT count(*) FROM bronze") records, and not $1" await bronze_has "$1"
	same "smelt run is the one that was there" "$(pid run)" "$run"
	"$root/bin/smelt" verify
}
bronze_has() { [ "$(query "SELECT count(*) FROM bronze")" -ge "$1" ]; }

minio_killed() {
	say "MinIO is killed under load, and comes back"
	local had
	run=$(pid run)
	had=$(query "SELECT count(*) FROM bronze")
	flood 1500
	must "the flood does not reach bronze" await bronze_has $((had + 100))
	finish "$minio" KILL
	read -rt 8 <> <(:) || true
	start_minio
	flooded $((had + 1500))
}

read_only() {
	say "the bucket becomes one that smelt may only read, under load, and is given back"
	local had
	had=$(query "SELECT count(*) FROM bronze")
	flood 1000
	must "the flood does not reach bronze" await bronze_has $((had + 100))
	allow '"s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"'
	must "smelt does not say so" await said 'access to bucket lake denied'
	"$root/bin/smelt" status | sed 's/^/  /'
	[ "$(query "SELECT count(*) FROM silver")" -gt 0 ] || fail "a query needs to write"
	"$root/bin/smelt" verify
	allow '"s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation", "s3:PutObject", "s3:DeleteObject"'
	flooded $((had + 1000))
}

wrong_key() {
	say "a wrong key"
	local code=0
	halt generate
	halt run
	SMELT_S3_SECRET_KEY=wrong-password "$root/bin/smelt" run >"$SMELT_HOME/logs/refused.log" 2>&1 || code=$?
	same "exit code" "$code" 5
	grep -q 'access key or secret refused' "$SMELT_HOME/logs/refused.log" || fail "it does not say so: $(tail -n 1 "$SMELT_HOME/logs/refused.log")"
	! grep -q wrong-password "$SMELT_HOME/logs/refused.log" || fail "it shows the password"
}
