package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"smelt/internal/store"
)

// secrets are recognisable wherever they turn up.
var secrets = []string{"kafkaword", "s3word", "tokenword", "databaseword", "sessionword", "endpointword"}

// TestSecrets has commands fail for every reason that secrets play a part in, and
// looks for them in all that they print, log and leave in the state folder.
func TestSecrets(t *testing.T) {
	t.Parallel()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "smelt", "another"), kfake.SeedTopics(1, "sensor.readings"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	s3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>`))
	}))
	t.Cleanup(s3.Close)
	broker, postgres := kafka.ListenAddrs()[0], refusingPostgres(t)
	host, port, err := net.SplitHostPort(postgres)
	if err != nil {
		t.Fatal(err)
	}
	usual := map[string]string{
		"SMELT_KAFKA_BROKERS": broker, "SMELT_KAFKA_SASL_MECHANISM": "PLAIN", "SMELT_KAFKA_SASL_USERNAME": "smelt", "SMELT_KAFKA_SASL_PASSWORD": "kafkaword",
		"SMELT_S3_ENDPOINT": s3.URL, "SMELT_S3_ACCESS_KEY": "key", "SMELT_S3_SECRET_KEY": "s3word", "SMELT_S3_SESSION_TOKEN": "sessionword",
		"SMELT_POSTGRES_DSN": "postgres://smelt:databaseword@" + postgres + "/smelt?sslmode=disable", "SMELT_HTTP_TOKEN": "tokenword", "SMELT_HTTP": "127.0.0.1:0",
	}
	for _, c := range []struct {
		name string
		set  map[string]string
		args []string
		want string // what is said all the same
	}{
		{"config", nil, []string{"config"}, "postgres://smelt:********@"},
		{"config as JSON", nil, []string{"config", "--json"}, "********"},
		{"config of a key=value DSN", map[string]string{"SMELT_POSTGRES_DSN": "host=db user=smelt password=databaseword"}, []string{"config"}, "********"},
		{"config of a password with a slash", map[string]string{"SMELT_POSTGRES_DSN": "postgres://smelt:1/databaseword@db/smelt"}, []string{"config"}, "********"},
		{"config of an endpoint with a password", map[string]string{"SMELT_S3_ENDPOINT": "https://me:endpointword@s3.test"}, []string{"config"}, "https://me:********@s3.test"},
		{"help", nil, []string{"--help"}, "SMELT_KAFKA_SASL_PASSWORD"},
		{"the database refuses", nil, []string{"run"}, "wrong password"},
		{"the store refuses", nil, []string{"status"}, "access key or secret refused"},
		{"as JSON", nil, []string{"status", "--json"}, "access key or secret refused"},
		{"verify", nil, []string{"verify"}, "wrong password"},
		{"the broker refuses", nil, []string{"produce", "--topic", "sensor.readings"}, "wrong user or password"},
		{"no broker", map[string]string{"SMELT_KAFKA_BROKERS": "127.0.0.1:1"}, []string{"produce", "--topic", "sensor.readings"}, "127.0.0.1:1"},
		{"a DSN that is none", map[string]string{"SMELT_POSTGRES_DSN": "postgres://smelt:databaseword@[::1/%zz"}, []string{"verify"}, "cannot be read"},
		{"a key=value DSN that is none", map[string]string{"SMELT_POSTGRES_DSN": "host=db password='databaseword"}, []string{"verify"}, "cannot be read"},
		{"a key=value DSN", map[string]string{"SMELT_POSTGRES_DSN": "host=" + host + " port=" + port + " user=smelt password=databaseword sslmode=disable"}, []string{"verify"}, "wrong password"},
		{"no database", map[string]string{"SMELT_POSTGRES_DSN": "postgres://smelt:databaseword@127.0.0.1:1/smelt"}, []string{"verify"}, "nothing listens there"},
		{"an endpoint with a password", map[string]string{"SMELT_S3_ENDPOINT": "https://me:endpointword@s3.test"}, []string{"verify"}, "check SMELT_S3_ENDPOINT"},
		{"an endpoint that is none", map[string]string{"SMELT_S3_ENDPOINT": "https://me:endpointword@[::1/%zz"}, []string{"verify"}, "check SMELT_S3_ENDPOINT"},
		{"no store", map[string]string{"SMELT_S3_ENDPOINT": "http://127.0.0.1:1"}, []string{"status"}, "no answer from http://127.0.0.1:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			command := exec.CommandContext(t.Context(), "smelt", c.args...)
			command.Env = append(os.Environ(), "SMELT_HOME="+home)
			for _, set := range []map[string]string{usual, c.set} {
				for name, value := range set {
					command.Env = append(command.Env, name+"="+value)
				}
			}
			command.Stdin = strings.NewReader("{}\n")
			said, _ := command.CombinedOutput() // most of them fail
			if !strings.Contains(string(said), c.want) {
				t.Errorf("it says nothing of %q:\n%s", c.want, said)
			}
			searched(t, "its output", string(said))
			for path, text := range files(t, home) {
				searched(t, path, text)
			}
		})
	}
}

func searched(t *testing.T, what, text string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%s has the secret %s:\n%s", what, s, text)
		}
	}
}

// files are those of a folder, by path.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// refusingPostgres requires a password and rejects every one.
func refusingPostgres(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	refuse := func(conn net.Conn) {
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1024)); err != nil { // who is there
			return
		}
		_, _ = conn.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3}) // a password in plain text is asked for
		if _, err := conn.Read(make([]byte, 1024)); err != nil {
			return
		}
		fields := "SFATAL\x00C28P01\x00Mpassword authentication failed\x00\x00"
		_, _ = conn.Write(append([]byte{'E', 0, 0, 0, byte(4 + len(fields))}, fields...))
		_, _ = io.Copy(io.Discard, conn)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go refuse(conn)
		}
	}()
	return listener.Addr().String()
}

// TestKeysReadAgain changes the files that the keys of S3 are in.
func TestKeysReadAgain(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("AWS_SESSION_TOKEN", "of other keys")
	t.Setenv("SMELT_S3_SECRET_KEY_FILE", write("secret", "one\n"))
	write(userFile, "SMELT_S3_ACCESS_KEY=first\n")
	read := func(args ...string) store.Keys {
		t.Helper()
		cli, _, err := parse(append(args, "version", "--home", home), io.Discard, io.Discard, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		before, err := cli.s3Keys()
		if err != nil {
			t.Fatal(err)
		}
		if want := (store.Keys{Access: before.Access, Secret: "one"}); before != want {
			t.Fatalf("got %v at first, want %v", before, want)
		}
		write("secret", "two\n")
		write(userFile, "SMELT_S3_ACCESS_KEY=second\n")
		after, err := cli.s3Keys()
		if err != nil {
			t.Fatal(err)
		}
		write("secret", "one\n")
		return after
	}
	if got, want := read(), (store.Keys{Access: "second", Secret: "two"}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := read("--s3-access-key", "explicit"), (store.Keys{Access: "explicit", Secret: "two"}); got != want {
		t.Errorf("with a flag: got %v, want %v", got, want)
	}
	if err := os.Remove(filepath.Join(home, userFile)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "temporary")
	cli, _, err := parse([]string{"version", "--home", home}, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := cli.s3Keys(); err != nil || got.Session != "of other keys" || got.Access != "temporary" {
		t.Errorf("of Amazon's variables: got %v and error %v", got, err)
	}
}
