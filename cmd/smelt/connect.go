package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"text/template"

	"smelt/internal/duck"
	"smelt/internal/postgres"
	"smelt/internal/store"
)

// connectCmd prints how another engine reads this lake.
type connectCmd struct {
	Engine string `arg:"" enum:"trino,spark,pyiceberg,duckdb" help:"trino, spark, pyiceberg or duckdb."`
}

// connection is what the templates say of the lake.
type connection struct {
	Catalog    string
	Bucket     string
	Endpoint   string // with its scheme
	Host       string // of the endpoint, with its port
	Secure     bool
	Region     string
	AccessKey  string
	SecretKey  string
	Session    string // of temporary keys
	CA         string // file of authorities to trust
	JDBC       string
	SQLAlchemy string
	User       string
	Password   string
	Example    string // a table of the catalog
	Schemas    []string
	Tables     []connectedTable // only for DuckDB, which knows no such catalog
}

// connectedTable is the current state of a table of the catalog.
type connectedTable struct{ Schema, Name, Metadata string }

// Run prints a configuration to paste. It holds the real passwords: that is
// what it is for.
func (c *connectCmd) Run(ctx context.Context, s *settings, streams *streams) error {
	lake, err := s.openReader(ctx)
	if err != nil {
		return err
	}
	defer lake.Close()
	address, err := postgres.ParseAddress(s.PostgresDSN)
	if err != nil {
		return err
	}
	keys, err := s.s3Keys()
	if err != nil {
		return err
	}
	conn := s.connection(address, keys)
	if err := conn.list(ctx, lake); err != nil {
		return err
	}
	return conn.write(streams.Out, c.Engine)
}

// write writes the configuration of an engine.
func (c *connection) write(w io.Writer, engine string) error {
	quote := template.FuncMap{"yaml": quoteYAML, "property": quoteProperty, "sql": duck.Literal, "name": duck.Quote}
	t, err := template.New(engine).Funcs(quote).Parse(configurations[engine])
	if err != nil {
		return err
	}
	return t.Execute(w, c)
}

func (s *settings) connection(db postgres.Address, keys store.Keys) *connection {
	c := &connection{
		Catalog: postgres.CatalogName, Bucket: s.S3Bucket, Endpoint: s.S3Endpoint, Region: s.S3Region,
		AccessKey: keys.Access, SecretKey: keys.Secret, Session: keys.Session, CA: s.CA, User: db.User, Password: db.Password,
	}
	if !strings.Contains(c.Endpoint, "://") {
		c.Endpoint = "http://" + c.Endpoint
	}
	scheme, host, _ := strings.Cut(strings.TrimSuffix(c.Endpoint, "/"), "://")
	c.Host, c.Secure = host, scheme == "https"
	at := net.JoinHostPort(db.Host, strconv.Itoa(db.Port)) + "/" + url.PathEscape(db.Database)
	if db.SSLMode != "" {
		at += "?sslmode=" + db.SSLMode
		if root := cmp.Or(db.RootCert, s.CA); strings.HasPrefix(db.SSLMode, "verify") && root != "" {
			at += "&sslrootcert=" + url.QueryEscape(root)
		}
	}
	c.JDBC = "jdbc:postgresql://" + at
	c.SQLAlchemy = "postgresql+psycopg2://" + url.UserPassword(db.User, db.Password).String() + "@" + at
	return c
}

// list fills in the tables of the catalog.
func (c *connection) list(ctx context.Context, lake *lake) error {
	names, err := lake.Tables.List(ctx)
	if err != nil {
		return err
	}
	c.Example = "gold.TABLE"
	for _, name := range names {
		if strings.HasPrefix(name, "gold.") {
			c.Example = name
		}
		t, err := lake.Tables.Load(ctx, name)
		if err != nil {
			return err
		}
		if _, ok := t.Current(); !ok {
			continue // a table without a snapshot, which DuckDB does not open
		}
		schema, view, _ := strings.Cut(name, ".")
		if len(c.Schemas) == 0 || c.Schemas[len(c.Schemas)-1] != schema { // names are sorted
			c.Schemas = append(c.Schemas, schema)
		}
		c.Tables = append(c.Tables, connectedTable{schema, view, t.MetadataLocation()})
	}
	return nil
}

// quoteYAML writes a string of YAML, which is one of JSON.
func quoteYAML(s string) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("quote: %w", err)
	}
	return string(text), nil
}

// quoteProperty writes the value of a Java property.
func quoteProperty(s string) string { return strings.ReplaceAll(s, `\`, `\\`) }

// configurations are the templates, by engine.
var configurations = map[string]string{
	"trino": `# etc/catalog/{{.Catalog}}.properties. It holds passwords: keep it from others' eyes (chmod 600).
{{if .CA}}# Java trusts the authorities of its truststore: add those of {{.CA}} to it (keytool -importcert -cacerts).
{{end}}{{if .Session}}# Trino takes no session token, so these temporary keys are no use to it: give it lasting ones, or leave them out and give it a role.
{{end}}# Then: SELECT * FROM {{.Catalog}}.{{.Example}}
connector.name=iceberg
iceberg.catalog.type=jdbc
iceberg.jdbc-catalog.catalog-name={{.Catalog}}
iceberg.jdbc-catalog.driver-class=org.postgresql.Driver
iceberg.jdbc-catalog.connection-url={{.JDBC | property}}
iceberg.jdbc-catalog.connection-user={{.User | property}}
iceberg.jdbc-catalog.connection-password={{.Password | property}}
iceberg.jdbc-catalog.default-warehouse-dir=s3://{{.Bucket}}
iceberg.unique-table-location=true
fs.native-s3.enabled=true
s3.endpoint={{.Endpoint | property}}
s3.region={{.Region}}
s3.path-style-access=true
{{if .AccessKey}}s3.aws-access-key={{.AccessKey | property}}
s3.aws-secret-key={{.SecretKey | property}}
{{end}}`,
	"spark": `# conf/spark-defaults.conf, for Spark 3.5. It holds passwords: keep it from others' eyes (chmod 600).
{{if .CA}}# Java trusts the authorities of its truststore: add those of {{.CA}} to it (keytool -importcert -cacerts).
{{end}}# Then, in spark-sql: SELECT * FROM {{.Catalog}}.{{.Example}}
spark.jars.packages                               org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0,org.apache.iceberg:iceberg-aws-bundle:1.10.0,org.postgresql:postgresql:42.7.7
spark.sql.extensions                              org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.{{.Catalog}}                            org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.{{.Catalog}}.catalog-impl               org.apache.iceberg.jdbc.JdbcCatalog
spark.sql.catalog.{{.Catalog}}.uri                        {{.JDBC | property}}
spark.sql.catalog.{{.Catalog}}.jdbc.user                  {{.User | property}}
spark.sql.catalog.{{.Catalog}}.jdbc.password              {{.Password | property}}
spark.sql.catalog.{{.Catalog}}.jdbc.schema-version        V1
spark.sql.catalog.{{.Catalog}}.warehouse                  s3://{{.Bucket}}
spark.sql.catalog.{{.Catalog}}.io-impl                    org.apache.iceberg.aws.s3.S3FileIO
spark.sql.catalog.{{.Catalog}}.s3.endpoint                {{.Endpoint | property}}
spark.sql.catalog.{{.Catalog}}.s3.path-style-access       true
{{if .AccessKey}}spark.sql.catalog.{{.Catalog}}.s3.access-key-id           {{.AccessKey | property}}
spark.sql.catalog.{{.Catalog}}.s3.secret-access-key       {{.SecretKey | property}}
{{end}}{{if .Session}}spark.sql.catalog.{{.Catalog}}.s3.session-token           {{.Session | property}}
{{end}}spark.sql.catalog.{{.Catalog}}.client.region              {{.Region}}
`,
	"pyiceberg": `# ~/.pyiceberg.yaml. It holds passwords: keep it from others' eyes (chmod 600).
# pip install "pyiceberg[sql-postgres,pyarrow]", and then in Python:
#   from pyiceberg.catalog import load_catalog
#   load_catalog("{{.Catalog}}").load_table("{{.Example}}").scan().to_arrow()
{{if .CA}}# S3 is trusted by the system's authorities: add those of {{.CA}} to them.
{{end}}catalog:
  {{.Catalog}}:
    type: sql
    uri: {{.SQLAlchemy | yaml}}
    warehouse: s3://{{.Bucket}}
    s3.endpoint: {{.Endpoint | yaml}}
    s3.region: {{.Region | yaml}}
{{if .AccessKey}}    s3.access-key-id: {{.AccessKey | yaml}}
    s3.secret-access-key: {{.SecretKey | yaml}}
{{end}}{{if .Session}}    s3.session-token: {{.Session | yaml}}
{{end}}`,
	"duckdb": `-- For DuckDB. It holds passwords: keep it from others' eyes.
-- DuckDB opens no such catalog, so each view is of its table as it is now; print this anew to see later snapshots.
-- It must not write to these tables.
INSTALL httpfs; LOAD httpfs;
INSTALL avro; LOAD avro;
INSTALL iceberg; LOAD iceberg;
{{if .CA}}SET ca_cert_file = {{.CA | sql}};
{{end}}CREATE OR REPLACE SECRET {{.Catalog}} (
    TYPE s3,{{if .AccessKey}} KEY_ID {{.AccessKey | sql}}, SECRET {{.SecretKey | sql}},{{end}}{{if .Session}} SESSION_TOKEN {{.Session | sql}},{{end}} REGION {{.Region | sql}},
    ENDPOINT {{.Host | sql}}, URL_STYLE 'path', USE_SSL {{.Secure}}, SCOPE {{printf "s3://%s" .Bucket | sql}}
);
{{range .Schemas}}CREATE SCHEMA IF NOT EXISTS {{. | name}};
{{end}}{{range .Tables}}CREATE OR REPLACE VIEW {{.Schema | name}}.{{.Name | name}} AS SELECT * FROM iceberg_scan({{.Metadata | sql}});
{{end}}`,
}
