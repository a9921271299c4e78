// Package shell is the query shell: a DuckDB that shows the tables of the lake as views, of their newest snapshots or of an
// earlier time. It reads bronze, silver, quarantine and gold directly from S3, so it also works while the pipelines are
// stopped. Statements cannot change the lake. Start reading with shell.go, then views.go.
package shell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"smelt"
	"smelt/internal/duck"
	"smelt/internal/table"
)

// Config is what a shell works with.
type Config struct {
	Home       string // the state folder, which statements must not write
	Extensions string // where DuckDB's extensions are, or are put
	Memory     int64  // bytes that DuckDB may take
	At         string // a time, tag or snapshot to show the lake at; "" for now
	Consistent bool   // each statement sees a state in which all tables fit each other; not with At
	Pipelines  []*smelt.Pipeline
	Store      smelt.Store
	Tables     *table.Lake
	References smelt.References
	S3         Remote
	Log        *slog.Logger
}

// Shell runs statements over the lake. It is used by one goroutine at a time.
type Shell struct {
	cfg        Config
	duck       *duck.DB
	console    *duck.Console
	relay      *relay
	local      *segments
	guard      guard
	main       *smelt.Pipeline // whose tables the views bronze, silver and gold show
	defined    map[string]string
	absent     map[string]string // by view name: why it does not exist
	past       *past             // nil: the newest snapshots are shown
	consistent bool              // past is found again for each statement
	chains     map[string]*chains
	refs       map[string]int64 // version loaded, by pipeline
	own        bool             // the user has views of their own, which may read any table
}

// mainPipeline is whose tables bronze, silver and gold are; without it they are
// the first pipeline's.
const mainPipeline = "sensors"

// Open starts a shell. It fetches DuckDB's extensions if they are missing. It reads the lake only to show the
// past, and fails with ErrNoPast if there is no such state.
func Open(ctx context.Context, cfg Config) (*Shell, error) {
	s := &Shell{
		cfg: cfg, defined: map[string]string{}, absent: map[string]string{},
		chains: map[string]*chains{}, refs: map[string]int64{},
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Shell) open(ctx context.Context) error {
	home, err := filepath.Abs(s.cfg.Home)
	if err != nil {
		return err
	}
	s.guard.home = real(home)
	for _, p := range s.cfg.Pipelines {
		if s.main == nil || p.Name == mainPipeline {
			s.main = p
		}
	}
	s.SetConsistent(s.cfg.Consistent)
	if s.cfg.At != "" {
		if err := s.remember(ctx, s.cfg.At); err != nil {
			return err
		}
	}
	s.duck, err = duck.Open(duck.Config{
		MemoryBytes: s.cfg.Memory, TempDir: filepath.Join(home, "tmp", "query"),
	})
	if err != nil {
		return err
	}
	dir, err := s.duck.TempDir()
	if err != nil {
		return err
	}
	s.local = &segments{store: s.cfg.Store, dir: dir}
	if err := s.duck.Extensions(ctx, s.cfg.Extensions, s.cfg.Log); err != nil {
		return err
	}
	if s.console, err = s.duck.Console(ctx, s.cfg.Extensions); err != nil {
		return err
	}
	if s.relay, err = openRelay(s.cfg.S3); err != nil {
		return smelt.Mark(smelt.ErrStore, err)
	}
	return s.console.Exec(ctx,
		// The surroundings of the process are not to lead DuckDB past the relay.
		"SET http_proxy = ''", "SET s3_access_key_id = ''", "SET s3_secret_access_key = ''", "SET s3_session_token = ''",
		// Objects of the lake never change: what is known of one holds.
		"SET enable_http_metadata_cache = true", "SET validate_external_file_cache = 'NO_VALIDATION'",
		fmt.Sprintf("CREATE SECRET lake (TYPE s3, KEY_ID %s, SECRET 'none', REGION 'us-east-1', ENDPOINT %s, URL_STYLE 'path', USE_SSL false)",
			duck.Literal(s.relay.token), duck.Literal(s.relay.addr)),
		"CREATE SCHEMA bronze", "CREATE SCHEMA silver", "CREATE SCHEMA gold", "CREATE SCHEMA quarantine", "CREATE SCHEMA reference")
}

// Close ends the shell.
func (s *Shell) Close() error {
	var errs []error
	if s.console != nil {
		errs = append(errs, s.console.Close())
	}
	if s.duck != nil {
		errs = append(errs, s.duck.Close())
	}
	if s.relay != nil {
		errs = append(errs, s.relay.close())
	}
	if s.local != nil {
		errs = append(errs, os.RemoveAll(s.local.dir))
	}
	return errors.Join(errs...)
}

// Run runs a statement over the lake's state, and interrupts it when ctx ends. With asJSON the result's cells are JSON. The result must be closed
// before the next statement.
func (s *Shell) Run(ctx context.Context, statement Statement, asJSON bool) (*duck.Result, error) {
	if err := s.guard.check(statement); err != nil {
		return nil, err
	}
	all := asksWhatThereIs.MatchString(statement.Text)
	if err := s.refresh(ctx, statement.Text, all); err != nil {
		return nil, err
	}
	result, err := s.console.Run(ctx, statement.Text, asJSON)
	if err != nil && duck.Missing(err) && !all { // with all there is, it knows what may have been meant
		if err := s.refresh(ctx, statement.Text, true); err != nil {
			return nil, err
		}
		result, err = s.console.Run(ctx, statement.Text, asJSON)
	}
	trouble := s.relay.trouble()
	if err != nil {
		for _, c := range s.chains {
			c.full = time.Time{} // an object may have been merged and deleted
		}
		return nil, s.explain(statement.Text, err, trouble)
	}
	if len(statement.tokens) > 0 && statement.tokens[0].is("CREATE") {
		s.own = true
	}
	return result, nil
}

// asksWhatThereIs matches statements that list tables.
var asksWhatThereIs = regexp.MustCompile(`(?i)\b(SHOW|PRAGMA|information_schema|pg_\w+|sqlite_master|duckdb_\w+)\b`)

// explain adds to DuckDB's complaint of a statement what it cannot know.
func (s *Shell) explain(statement string, err, trouble error) error {
	if trouble != nil {
		return trouble
	}
	if !duck.Missing(err) {
		return err
	}
	lower := strings.ToLower(statement)
	for view, why := range s.absent {
		if !strings.Contains(lower, view) {
			continue
		}
		last := view[strings.LastIndexByte(view, '.')+1:]
		if strings.Contains(err.Error(), "name "+last+" does") || strings.Contains(err.Error(), `name "`+last+`" does`) {
			return fmt.Errorf("%s (%w)", why, err)
		}
	}
	return err
}
