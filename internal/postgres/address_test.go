package postgres

import "testing"

func TestParameter(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://u:p@db/lake?sslmode=verify-full&sslrootcert=%2Fetc%2Four%20ca.pem": "/etc/our ca.pem",
		"postgresql://db/lake?sslmode=verify-full":                                     "",
		"host=db sslrootcert=/etc/ca.pem dbname=lake":                                  "/etc/ca.pem",
		"host = db  sslrootcert = '/etc/our ca.pem'":                                   "/etc/our ca.pem",
		`password='x sslrootcert=/not/this' user=me`:                                   "",
		`password='it\'s' sslrootcert=/etc/our\ ca.pem user=me`:                        "/etc/our ca.pem",
		"sslrootcert=/etc/a.pem sslrootcert=/etc/b.pem":                                "/etc/b.pem",
		"": "",
	} {
		if got := parameter(dsn, "sslrootcert"); got != want {
			t.Errorf("%s: got %q, want %q", dsn, got, want)
		}
	}
}
