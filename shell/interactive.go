package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/chzyer/readline"
)

const (
	prompt     = "smelt> "
	promptMore = "  ...> "

	// historyLines bounds the history file.
	historyLines = 1000
)

// help is what .help prints.
const help = `End a statement with a semicolon; it may take several lines. Tab completes, the up arrow and Ctrl-R find
earlier statements, Ctrl-C drops what is typed or stops what runs, Ctrl-D leaves.

  .tables             the tables, with their rows
  .schema [TABLE]     the columns of a table, or of all
  .consistent on|off  each statement sees one state in which all tables fit each other, or the newest of each
  .timer on|off       how long each statement takes
  .help               this
  .quit               leave

Schemas: bronze, silver, gold, quarantine, reference. Local tables and views can be created as you like, and
COPY (SELECT …) TO 'out.parquet' writes a local file.
`

// session is a shell at a terminal.
type session struct {
	shell   *Shell
	printer *Printer
	line    *readline.Instance
	typed   strings.Builder // of a statement that goes on
	timer   bool
}

// Interact runs a shell at a terminal until the user leaves or ctx ends. The
// history is kept in a file.
func (s *Shell) Interact(ctx context.Context, printer *Printer, history string) error {
	i := &session{shell: s, printer: printer}
	if err := private(history); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	line, err := readline.NewEx(&readline.Config{
		Prompt: prompt, HistoryFile: history, HistoryLimit: historyLines, DisableAutoSaveHistory: true, HistorySearchFold: true,
		AutoComplete: completer{ctx, i}, InterruptPrompt: "^C", EOFPrompt: ".quit",
	})
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	i.line = line
	stop := context.AfterFunc(ctx, func() { line.Close() })
	defer stop()
	defer func() { _ = os.Chmod(history, 0o600) }() // readline rewrites it when it is long
	defer line.Close()
	if err := s.greet(ctx, printer.Out); err != nil {
		fmt.Fprintln(printer.Err, err) // the shell may still be useful
	}
	return i.loop(ctx)
}

// private makes a file that only its owner reads.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

func (i *session) loop(ctx context.Context) error {
	for {
		i.line.SetPrompt(prompt)
		if i.typed.Len() > 0 {
			i.line.SetPrompt(promptMore)
		}
		text, err := i.line.Readline()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, readline.ErrInterrupt):
			i.typed.Reset()
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("terminal: %w", err)
		}
		if i.typed.Len() == 0 && strings.HasPrefix(strings.TrimSpace(text), ".") {
			i.remember(text)
			if quit := i.command(ctx, strings.Fields(text)); quit {
				return nil
			}
			continue
		}
		if i.typed.Len() == 0 {
			switch strings.ToLower(strings.Trim(text, "; ")) {
			case "exit", "quit":
				return nil
			case "help":
				fmt.Fprint(i.printer.Out, help)
				continue
			}
		}
		i.typed.WriteString(text + "\n")
		i.take(ctx)
	}
}

// take runs the statements that are complete.
func (i *session) take(ctx context.Context) {
	all := i.typed.String()
	statements, rest := Split(all)
	i.typed.Reset()
	if rest != "" {
		if len(statements) == 0 {
			rest = all
		}
		i.typed.WriteString(rest)
	}
	if len(statements) == 0 {
		return
	}
	i.remember(strings.TrimSuffix(all, rest))
	for _, statement := range statements {
		if !i.run(ctx, statement) {
			return
		}
	}
}

// remember keeps statements in the history, as one line. An error with the history is ignored.
func (i *session) remember(statements string) {
	statements = strings.TrimSpace(statements)
	if strings.Contains(statements, "\n") && strings.Contains(statements, "--") {
		return // on one line a comment would take the rest along
	}
	_ = i.line.SaveHistory(strings.ReplaceAll(statements, "\n", " "))
}

// run runs a statement, which an interrupt stops. It says whether that went well.
func (i *session) run(ctx context.Context, statement Statement) bool {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	began := time.Now()
	result, err := i.shell.Run(ctx, statement, i.printer.Format == JSON)
	if err == nil {
		err = i.printer.Print(result)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(i.printer.Err, "interrupted")
	case err != nil:
		fmt.Fprintln(i.printer.Err, err)
	}
	if i.timer {
		fmt.Fprintf(i.printer.Err, "%.3f s\n", time.Since(began).Seconds())
	}
	return err == nil
}

// command runs a command that begins with a dot.
func (i *session) command(ctx context.Context, words []string) (quit bool) {
	argument := ""
	if len(words) > 1 {
		argument = strings.TrimSuffix(words[1], ";")
	}
	out := i.printer.Out
	switch words[0] {
	case ".quit", ".exit":
		return true
	case ".help":
		fmt.Fprint(out, help)
	case ".tables":
		if err := i.shell.list(ctx, out); err != nil {
			fmt.Fprintln(i.printer.Err, err)
		}
	case ".schema":
		i.schema(ctx, argument)
	case ".timer", ".consistent":
		if argument != "on" && argument != "off" {
			fmt.Fprintf(i.printer.Err, "%s on or %[1]s off\n", words[0])
			break
		}
		if words[0] == ".timer" {
			i.timer = argument == "on"
			break
		}
		if i.shell.cfg.At != "" {
			fmt.Fprintln(i.printer.Err, ".consistent: this shell shows the lake as it was (--at)")
			break
		}
		i.shell.SetConsistent(argument == "on")
	default:
		fmt.Fprintf(i.printer.Err, "there is no %s: .help tells what there is\n", words[0])
	}
	return false
}

func (i *session) schema(ctx context.Context, table string) {
	text := "DESCRIBE " + table
	if table == "" {
		text = `SELECT schema_name || '.' || view_name AS "table", column_name, data_type
			FROM duckdb_columns() JOIN duckdb_views() USING (database_name, schema_name)
			WHERE database_name = 'lake' AND view_name = table_name AND schema_name <> 'main' ORDER BY 1, column_index`
		// Only a statement that names the schemas has them brought up to date.
		if err := i.shell.refresh(ctx, "", true); err != nil {
			fmt.Fprintln(i.printer.Err, err)
			return
		}
	}
	statements, rest := Split(text + ";")
	if len(statements) != 1 || rest != "" {
		fmt.Fprintln(i.printer.Err, ".schema TABLE, such as .schema silver.sensors")
		return
	}
	i.run(ctx, statements[0])
}
