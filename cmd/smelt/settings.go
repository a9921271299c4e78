package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// settings are the settings of every command, from flags, environment variables or files, in that order. The files are smelt.env
// in the state folder, which is the user's, and stack.env there, which the embedded stack writes.
type settings struct {
	Home string `group:"Settings" setting:"SMELT_HOME" default:".smelt" placeholder:"DIR" help:"State folder."`

	KafkaBrokers       []string `group:"Settings" setting:"SMELT_KAFKA_BROKERS" placeholder:"HOST:PORT,…" help:"Kafka brokers."`
	KafkaTLS           bool     `group:"Settings" name:"kafka-tls" setting:"SMELT_KAFKA_TLS" help:"Encrypt the connection to Kafka."`
	KafkaSASLMechanism string   `group:"Settings" name:"kafka-sasl-mechanism" setting:"SMELT_KAFKA_SASL_MECHANISM" placeholder:"NAME" help:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."`
	KafkaSASLUsername  string   `group:"Settings" name:"kafka-sasl-username" setting:"SMELT_KAFKA_SASL_USERNAME" placeholder:"NAME" help:"User for Kafka."`
	KafkaSASLPassword  string   `group:"Settings" name:"kafka-sasl-password" setting:"SMELT_KAFKA_SASL_PASSWORD" secret:"" placeholder:"SECRET" help:"Password for Kafka."`

	KafkaCert string `group:"Settings" setting:"SMELT_KAFKA_CERT" placeholder:"FILE" help:"PEM file of the client certificate to show to Kafka."`
	KafkaKey  string `group:"Settings" setting:"SMELT_KAFKA_KEY" placeholder:"FILE" help:"PEM file of its key."`

	KafkaTrim bool `group:"Settings" setting:"SMELT_KAFKA_TRIM" negatable:"" help:"Delete from Kafka what the lake has, but for the newest 100,000 records of a partition: for a broker without retention, as the embedded one."`

	S3Endpoint  string `group:"Settings" name:"s3-endpoint" setting:"SMELT_S3_ENDPOINT,AWS_ENDPOINT_URL_S3,AWS_ENDPOINT_URL" placeholder:"URL" help:"S3 endpoint."`
	S3Bucket    string `group:"Settings" name:"s3-bucket" setting:"SMELT_S3_BUCKET" default:"lake" placeholder:"NAME" help:"Bucket."`
	S3Region    string `group:"Settings" name:"s3-region" setting:"SMELT_S3_REGION,AWS_REGION,AWS_DEFAULT_REGION" default:"us-east-1" placeholder:"NAME" help:"Region."`
	S3AccessKey string `group:"Settings" name:"s3-access-key" setting:"SMELT_S3_ACCESS_KEY,AWS_ACCESS_KEY_ID" placeholder:"KEY" help:"Access key."`
	S3SecretKey string `group:"Settings" name:"s3-secret-key" setting:"SMELT_S3_SECRET_KEY,AWS_SECRET_ACCESS_KEY" secret:"" placeholder:"SECRET" help:"Secret key."`

	S3SessionToken string `group:"Settings" name:"s3-session-token" setting:"SMELT_S3_SESSION_TOKEN,AWS_SESSION_TOKEN" secret:"" placeholder:"SECRET" help:"Session token, of temporary keys."`

	CA string `group:"Settings" name:"ca" setting:"SMELT_CA" placeholder:"FILE" help:"PEM file of authorities to trust beside the system's: for Kafka, S3 and a PostgreSQL whose DSN verifies without sslrootcert."`

	PostgresDSN string `group:"Settings" name:"postgres-dsn" setting:"SMELT_POSTGRES_DSN" secret:"" placeholder:"URL" help:"PostgreSQL: the catalog and the reference tables. Without one the PG… variables hold."`

	Pipelines string `group:"Settings" setting:"SMELT_PIPELINES" placeholder:"DIR" help:"Folder of pipelines; default: those that come with smelt."`
	HTTP      string `group:"Settings" name:"http" setting:"SMELT_HTTP" default:"127.0.0.1:8088" placeholder:"HOST:PORT" help:"Where run serves health and metrics."`
	HTTPToken string `group:"Settings" name:"http-token" setting:"SMELT_HTTP_TOKEN" secret:"" placeholder:"SECRET" help:"Token for metrics and details of health, sent as Authorization: Bearer SECRET; required if SMELT_HTTP is not loopback."`
	Memory    bytes  `group:"Settings" setting:"SMELT_MEMORY" default:"1GiB" placeholder:"SIZE" help:"DuckDB's memory; beyond it, it spills to disk."`
	Cache     bytes  `group:"Settings" setting:"SMELT_CACHE" default:"4GiB" placeholder:"SIZE" help:"Local copies of data files, in the state folder."`
	RecordMax bytes  `group:"Settings" setting:"SMELT_RECORD_MAX" default:"8MiB" placeholder:"SIZE" help:"Larger records are quarantined by reference."`
	Codec     string `group:"Settings" setting:"SMELT_CODEC" default:"zstd" enum:"zstd,gzip" help:"Compression of bronze: zstd or gzip."`

	Freshness span `group:"Settings" setting:"SMELT_FRESHNESS" default:"4s" placeholder:"TIME" help:"Time within which events are usually in gold; a shorter time costs more commits and CPU."`

	Heal bool `group:"Settings" setting:"SMELT_HEAL" default:"true" negatable:"" help:"Re-enrich events whose reference row came later."`

	Maintain       bool  `group:"Settings" setting:"SMELT_MAINTAIN" default:"true" negatable:"" help:"Keep the lake in shape while running: compact, merge, expire, clean; smelt maintain does so by hand."`
	FileSize       bytes `group:"Settings" setting:"SMELT_FILE_SIZE" default:"64MiB" placeholder:"SIZE" help:"What small data files are compacted to."`
	Snapshots      int   `group:"Settings" setting:"SMELT_SNAPSHOTS" default:"200" placeholder:"N" help:"The newest snapshots of a table are kept, so many."`
	SnapshotGrace  span  `group:"Settings" setting:"SMELT_SNAPSHOT_GRACE" default:"10m" placeholder:"AGE" help:"So are younger ones: longer than a query takes."`
	SnapshotHourly span  `group:"Settings" setting:"SMELT_SNAPSHOT_HOURLY" default:"1d" placeholder:"AGE" help:"How long the last snapshot of each hour is kept."`
	SnapshotDaily  span  `group:"Settings" setting:"SMELT_SNAPSHOT_DAILY" default:"30d" placeholder:"AGE" help:"How long the last snapshot of each day is kept."`
	OrphanAge      span  `group:"Settings" setting:"SMELT_ORPHAN_AGE" default:"3d" placeholder:"AGE" help:"Files that no snapshot refers to are deleted at this age."`
	BronzeGrace    span  `group:"Settings" setting:"SMELT_BRONZE_GRACE" default:"1h" placeholder:"AGE" help:"How long bronze objects stay once a merged one has them."`

	StackKafkaPort    int `group:"Settings" name:"kafka-port" setting:"SMELT_KAFKA_PORT" default:"9092" placeholder:"PORT" help:"Port of the embedded Kafka."`
	StackS3Port       int `group:"Settings" name:"s3-port" setting:"SMELT_S3_PORT" default:"9000" placeholder:"PORT" help:"Port of the embedded S3."`
	StackConsolePort  int `group:"Settings" name:"console-port" setting:"SMELT_CONSOLE_PORT" default:"9001" placeholder:"PORT" help:"Port of the embedded S3's web console."`
	StackPostgresPort int `group:"Settings" name:"postgres-port" setting:"SMELT_POSTGRES_PORT" default:"5433" placeholder:"PORT" help:"Port of the embedded PostgreSQL."`

	args        []string          // the command line
	origins     map[string]origin // by flag: found in the environment or a file
	explicit    map[string]bool   // by flag: given on the command line
	environment []string          // the explicit ones, as environment variables
	log         *slog.Logger      // of a command that keeps one
}

// origin says where a setting's value came from.
type origin struct {
	Name  string // the flag, the variable or the file; "default" when nothing was set
	Value string
}

// Files of settings in the state folder, the stronger one first.
const (
	userFile  = "smelt.env"
	stackFile = "stack.env"
)

// names gives the environment variables of a setting: its own, then fallbacks.
func names(tag string) (own string, fallbacks []string) {
	all := strings.Split(tag, ",")
	return all[0], all[1:]
}

// resolver gives kong the values of flags that are not on the command line.
type resolver struct{ cli *commands }

// Validate does nothing, because there is no file format to check.
func (resolver) Validate(*kong.Application) error { return nil }

// Resolve looks a flag up in the environment and then in the files.
func (r resolver) Resolve(k *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	tag := flag.Tag.Get("setting")
	if tag == "" {
		return nil, nil
	}
	if r.cli.origins == nil {
		r.cli.origins = map[string]origin{}
	}
	found, err := lookup(tag, home(k))
	if err != nil || found.Name == "" {
		return nil, err
	}
	r.cli.origins[flag.Name] = found
	return found.Value, nil
}

// lookup finds a setting: its variable, its …_FILE variable, the files in the
// state folder, and then the variables that other tools use.
func lookup(tag, home string) (origin, error) {
	own, fallbacks := names(tag)
	if v, ok := os.LookupEnv(own); ok {
		return origin{own, v}, nil
	}
	if path, ok := os.LookupEnv(own + "_FILE"); ok {
		secret, err := os.ReadFile(path)
		if err != nil {
			return origin{}, fmt.Errorf("%s_FILE: %w", own, err)
		}
		return origin{own + "_FILE", strings.TrimRight(string(secret), "\r\n")}, nil
	}
	if own == "SMELT_HOME" {
		return origin{}, nil
	}
	for _, file := range []string{userFile, stackFile} {
		path := filepath.Join(home, file)
		values, err := readEnv(path)
		if err != nil {
			return origin{}, err
		}
		if v, ok := values[own]; ok {
			return origin{path, v}, nil
		}
	}
	for _, name := range fallbacks {
		if v, ok := os.LookupEnv(name); ok {
			return origin{name, v}, nil
		}
	}
	return origin{}, nil
}

// noteExplicit remembers the settings that were given on the command line: a
// command that is started in the background has to be given them as well.
func (s *settings) noteExplicit(k *kong.Context) {
	s.explicit = map[string]bool{}
	for _, p := range k.Path {
		if p.Flag == nil || p.Resolved || p.Flag.Tag.Get("setting") == "" {
			continue
		}
		own, _ := names(p.Flag.Tag.Get("setting"))
		s.explicit[p.Flag.Name] = true
		s.environment = append(s.environment, own+"="+text(p.Flag))
	}
}

// parseAgain reads the settings again, from the same command line.
func parseAgain(s *settings) (*settings, error) {
	cli, _, err := parse(s.args, io.Discard, io.Discard, func(int) {})
	if err != nil {
		return nil, err
	}
	cli.Home = s.Home
	return &cli.settings, nil
}

// again looks up a setting by its field again, because its file may have changed. A flag of the command line stays.
func (s *settings) again(field string) (origin, error) {
	f, ok := reflect.TypeFor[settings]().FieldByName(field)
	if !ok {
		panic("no setting " + field)
	}
	if name := f.Tag.Get("name"); s.explicit[name] {
		return origin{"--" + name, reflect.ValueOf(s).Elem().FieldByIndex(f.Index).String()}, nil
	}
	return lookup(f.Tag.Get("setting"), s.Home)
}

// text is a flag's value as the environment would hold it.
func text(flag *kong.Flag) string {
	if list, ok := flag.Target.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(flag.Target.Interface())
}

// home is the state folder, while flags are still being parsed.
func home(k *kong.Context) string {
	for _, p := range k.Path {
		if p.Flag != nil && p.Flag.Name == "home" {
			return fmt.Sprint(k.FlagValue(p.Flag))
		}
	}
	return cmp.Or(os.Getenv("SMELT_HOME"), defaultHome)
}

// defaultHome is the state folder when nothing names another.
const defaultHome = ".smelt"

// readEnv reads a file of NAME=value lines; one that is not there is empty.
func readEnv(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(text, "export "), "=")
		if !ok {
			return nil, usageError{fmt.Errorf("%s:%d: want NAME=value", path, n)}
		}
		values[strings.TrimSpace(name)] = unquoted(strings.TrimSpace(value))
	}
	return values, lines.Err()
}

// unquoted leaves out the quotes around a value: a shell may read the file too.
func unquoted(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}

// checkFile rejects unknown settings in the user's file.
func (s *settings) checkFile(flags []*kong.Flag) error {
	path := filepath.Join(s.Home, userFile)
	values, err := readEnv(path)
	if err != nil {
		return err
	}
	for _, flag := range flags {
		own, _ := names(flag.Tag.Get("setting"))
		if own != "SMELT_HOME" { // it is what leads to the file
			delete(values, own)
		}
	}
	if len(values) == 0 {
		return nil
	}
	return usagef("%s: no such settings: %s; smelt config lists all", path, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
}

// writeEnv writes such a file.
func writeEnv(path string, values map[string]string) error {
	var lines []string
	for name, value := range values {
		lines = append(lines, name+"="+value+"\n")
	}
	slices.Sort(lines)
	return writeFile(path, []byte(strings.Join(lines, "")))
}

// writeFile writes a file, whole or not at all, for its owner's eyes only.
func writeFile(path string, text []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// settingHelp adds the environment variable to a flag's help.
func settingHelp(value *kong.Value) string {
	if own, _ := names(value.Tag.Get("setting")); own != "" {
		return strings.TrimSuffix(value.Help, ".") + " ($" + own + ")."
	}
	return kong.DefaultHelpValueFormatter(value)
}

// bytes is a size, written as 64MiB, 1GiB or a plain number.
type bytes int64

// UnmarshalText reads a size.
func (b *bytes) UnmarshalText(text []byte) error {
	units := []struct {
		suffix string
		factor int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, ok := strings.CutSuffix(string(text), u.suffix)
		if !ok {
			continue
		}
		var n int64
		if _, err := fmt.Sscanf(number+"\n", "%d\n", &n); err != nil || n <= 0 {
			return fmt.Errorf("%q is not a size such as 512MiB", text)
		}
		*b = bytes(n * u.factor)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 512MiB", text)
}

// span is a length of time, written as 30d, 36h or 90m.
type span time.Duration

// UnmarshalText reads a span, which is longer than nothing.
func (d *span) UnmarshalText(text []byte) error {
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16) // 179 years at most
		*d = span(time.Duration(n) * 24 * time.Hour)
		if err == nil && n > 0 {
			return nil
		}
	} else if n, err := time.ParseDuration(string(text)); err == nil && n > 0 {
		*d = span(n)
		return nil
	}
	return fmt.Errorf("%q is not a length of time such as 30d, 36h or 90m", text)
}

// String writes the largest unit that fits.
func (d span) String() string {
	for _, u := range []struct {
		suffix string
		unit   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if time.Duration(d)%u.unit == 0 && d > 0 {
			return fmt.Sprintf("%d%s", time.Duration(d)/u.unit, u.suffix)
		}
	}
	return time.Duration(d).String()
}

// String writes the largest unit that fits.
func (b bytes) String() string {
	for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
		if b%1024 != 0 || b == 0 {
			return fmt.Sprintf("%d%s", int64(b), u)
		}
		b /= 1024
	}
	return fmt.Sprintf("%dTiB", int64(b))
}
