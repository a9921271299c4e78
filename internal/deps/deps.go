//go:build deps

// Package deps holds the module's requirements while they are not imported yet.
package deps

import (
	_ "github.com/alecthomas/kong"
	_ "github.com/apache/iceberg-go/table"
	_ "github.com/chzyer/readline"
	_ "github.com/compose-spec/compose-go/v2/loader"
	_ "github.com/compose-spec/compose-go/v2/dotenv"
	_ "github.com/duckdb/duckdb-go/v2"
	_ "github.com/fergusstrange/embedded-postgres"
	_ "github.com/go-co-op/gocron/v2"
	_ "github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/minio/minio-go/v7"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil/promlint"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/twmb/franz-go/pkg/kadm"
	_ "github.com/twmb/franz-go/pkg/kfake"
	_ "github.com/twmb/franz-go/pkg/kgo"
	_ "github.com/twmb/franz-go/pkg/sasl/plain"
	_ "github.com/twmb/franz-go/pkg/sasl/scram"
	_ "github.com/versity/versitygw/embedgw"
	_ "github.com/versity/versitygw/backend/posix"
	_ "github.com/versity/versitygw/backend/meta"
	_ "go.yaml.in/yaml/v4"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/term"
	_ "golang.org/x/tools/txtar"
	_ "pgregory.net/rapid"
)
