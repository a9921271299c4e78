# Whom the broker lets in, and to what; sourced by kafka.sh.

try_access() {
	log_in
	mutual_tls
	without_rights
}

log_in() {
	say "SASL/SCRAM: a wrong password, then the right one"
	export SMELT_KAFKA_BROKERS=127.0.0.1:$sasl_port SMELT_KAFKA_SASL_MECHANISM=SCRAM-SHA-512 SMELT_KAFKA_SASL_USERNAME=smelt
	SMELT_KAFKA_SASL_PASSWORD=wrong-password refused 'refuses user \\\?"smelt'
	! grep -q wrong-password "$SMELT_HOME/logs/refused.log" || fail "it shows the password"
	export SMELT_KAFKA_SASL_PASSWORD=$kafka_password
	start_run
	client send interop.exact 1000 60000
	has exact 61000
	"$root/bin/smelt" verify
	finish "$run" INT
	unset SMELT_KAFKA_SASL_MECHANISM SMELT_KAFKA_SASL_USERNAME SMELT_KAFKA_SASL_PASSWORD
}

# refused runs smelt run, which is to end with the source's trouble, and words.
refused() { # the words, as grep wants them
	local code=0
	"$root/bin/smelt" run >"$SMELT_HOME/logs/refused.log" 2>&1 || code=$?
	same "exit code" "$code" 4
	grep -q "$1" "$SMELT_HOME/logs/refused.log" || fail "it does not say '$1': $(tail -n 1 "$SMELT_HOME/logs/refused.log")"
	echo "  it says: $(tail -n 1 "$SMELT_HOME/logs/refused.log" | cut -c 1-300)"
}

# certificates makes an authority, and who it has signed: a key and a certificate each, and both in one file.
certificates() { # names…
	local name
	mkdir -p "$SMELT_HOME/certificates"
	(
		cd "$SMELT_HOME/certificates"
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=interop -keyout ca.key -out ca.crt
		for name in "$@"; do
			openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
			openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile <(echo subjectAltName=IP:127.0.0.1) -out "$name.crt"
			cat "$name.key" "$name.crt" >"$name.both"
		done
	) >/dev/null 2>&1 || fail "openssl makes no certificates"
}

# as runs a command of smelt's for a principal, whom its certificate names.
as() { # name, command…
	SMELT_KAFKA_CERT=$SMELT_HOME/certificates/$1.crt SMELT_KAFKA_KEY=$SMELT_HOME/certificates/$1.key "${@:2}"
}

# mutual_tls gives each principal the rights of docs/security.md, and no other.
mutual_tls() {
	say "mTLS, and the ACLs of docs/security.md alone: one who produces, one who runs the line, one who looks at it"
	make_pipelines guarded guarded
	client allow CN=writer topic interop.guarded Write DescribeConfigs
	client allow CN=reader topic interop.guarded Read
	client allow CN=reader group smelt-guarded Read
	client allow CN=watcher topic interop.guarded Read
	export SMELT_KAFKA_BROKERS=127.0.0.1:$tls_port SMELT_KAFKA_TLS=true SMELT_CA=$SMELT_HOME/certificates/ca.crt
	events 0 1000 | as writer "$root/bin/smelt" produce --topic interop.guarded
	as reader start_run
	has guarded 1000
	same "status without Describe on the group" "$(as watcher "$root/bin/smelt" status guarded | grep -c 'may not use the consumer group')" 1
	client allow CN=watcher group smelt-guarded Describe
	same "status with it" "$(as watcher "$root/bin/smelt" status guarded | grep -c 'may not use')" 0
	as watcher "$root/bin/smelt" source guarded
	finish "$run" INT
}

# events writes some as clients do.
events() { # from, how many
	local i
	for i in $(seq "$1" $(($1 + $2 - 1))); do
		printf '{"id":%d,"made":"2026-01-01T%02d:00:00Z","pad":"x"}\n' "$i" "$((i % 24))"
	done
}

without_rights() {
	say "a client without a certificate; without Read on the topic, or on the group; a line whose right is taken away, and given back"
	refused 'asks for a client certificate'
	client deny topic interop.guarded
	as reader refused 'may not use topic interop.guarded'
	client allow CN=reader topic interop.guarded Read
	client allow CN=writer topic interop.guarded Write DescribeConfigs
	client deny group smelt-guarded
	as reader start_run
	must "the log does not say that Read on the group is missing" await denied 'the consumer group'
	client allow CN=reader group smelt-guarded Read
	events 1000 500 | as writer "$root/bin/smelt" produce --topic interop.guarded
	has guarded 1500
	client deny topic interop.guarded
	must "the log does not say that Read on the topic is missing" await denied 'topic interop.guarded'
	client allow CN=reader topic interop.guarded Read
	client allow CN=writer topic interop.guarded Write DescribeConfigs
	events 1500 500 | as writer "$root/bin/smelt" produce --topic interop.guarded
	has guarded 2000
	finish "$run" INT
	unset SMELT_KAFKA_TLS SMELT_CA
	export SMELT_KAFKA_BROKERS=127.0.0.1:$kafka_port
}
denied() { said "CN=reader.* may not use $1"; }
