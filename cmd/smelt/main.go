// Command smelt is a medallion lakehouse in one binary: see the README.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// commands are the subcommands; each is in the file of its name. Fields of
// settings are flags of all of them.
type commands struct {
	settings

	Start    startCmd    `cmd:"" help:"Start the demo in the background: the embedded stack, the generator and the pipelines; wait until it is queryable."`
	Stop     stopCmd     `cmd:"" help:"Stop what start has started, draining what was read."`
	Reset    resetCmd    `cmd:"" help:"Stop, and wipe the state folder: all data of the embedded stack."`
	Run      runCmd      `cmd:"" help:"Run all stages of the pipelines in the foreground."`
	Stack    stackCmd    `cmd:"" help:"Run the embedded Kafka, S3 and PostgreSQL in the foreground."`
	Generate generateCmd `cmd:"" help:"Send the demo's sensor readings to Kafka."`
	Produce  produceCmd  `cmd:"" help:"Send lines of standard input to a topic, a record a line."`
	Query    queryCmd    `cmd:"" help:"Open a DuckDB shell over the lake, or run statements."`
	Status   statusCmd   `cmd:"" help:"Show each pipeline's stages, lag and trouble, with the commands that mend it."`
	Verify   verifyCmd   `cmd:"" help:"Recount the whole lake: nothing lost, nothing twice, gold equals its SQL."`
	Backfill backfillCmd `cmd:"" help:"Replay records from bronze, and publish what comes out differently, while the stream runs."`
	Trace    traceCmd    `cmd:"" help:"Follow one record from bronze through silver or quarantine to gold."`
	History  historyCmd  `cmd:"" help:"Show the snapshots of a table: when, by what, how many rows, and their tags."`
	Tag      tagCmd      `cmd:"" help:"Give a snapshot of a table a name, by which it is kept."`
	Rollback rollbackCmd `cmd:"" help:"Move a table back to a snapshot, a tag or a time; silver reads again what was rolled back."`
	Source   sourceCmd   `cmd:"" help:"Show how each partition's log continues what the lake has, and go on where it does not."`
	Maintain maintainCmd `cmd:"" name:"maintain" help:"Compact files, merge objects, drop old snapshots and orphans now, as smelt run does regularly."`
	Drop     dropCmd     `cmd:"" help:"Delete a gold table, or all tables of a pipeline; bronze stays and is read again."`
	Check    checkCmd    `cmd:"" help:"Check the pipelines, offline."`
	Test     testCmd     `cmd:"" help:"Run the pipelines' test.txtar."`
	Connect  connectCmd  `cmd:"" help:"Print a configuration with which another engine reads this lake."`
	Config   configCmd   `cmd:"" help:"Show the settings in effect, and where each came from."`
	Version  versionCmd  `cmd:"" help:"Print the version."`

	Extensions extensionsCmd `cmd:"" hidden:"" help:"Fetch the DuckDB extensions that the shell needs."`
	Locate     locateCmd     `cmd:"" hidden:"" help:"Write a sensor's place into the demo's reference table."`
	measurements
}

// streams are where a command reads and writes: data on Out, the rest on Err.
type streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// run is main with its surroundings as arguments; it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	code := -1
	cli, command, err := parse(args, stdout, stderr, func(c int) { code = c })
	if code >= 0 { // --help
		return code
	}
	if err != nil {
		return report(stderr, err)
	}
	ctx, stop := interruptible()
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	command.Bind(&cli.settings, &streams{os.Stdin, stdout, stderr})
	err = command.Run()
	if errors.Is(err, context.Canceled) && interrupted(ctx) {
		err = errInterrupted // whichever call was interrupted
	}
	return report(stderr, err)
}

// parse reads a command line, the environment and the files of settings.
func parse(args []string, stdout, stderr io.Writer, exit func(int)) (*commands, *kong.Context, error) {
	cli := new(commands)
	parser, err := kong.New(cli,
		kong.Name("smelt"),
		kong.Description("smelt refines streams into an open lakehouse.\n\n"+exitCodes),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.Resolvers(resolver{cli: cli}),
		kong.ValueFormatter(settingHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	)
	if err != nil {
		return nil, nil, err
	}
	command, err := parser.Parse(withComments(args))
	if err != nil {
		return nil, nil, usageError{err}
	}
	if err := refuseEmpty(command); err != nil {
		return nil, nil, err
	}
	cli.args = args
	cli.noteExplicit(command)
	return cli, command, cli.checkFile(command.Model.Node.Flags)
}

// refuseEmpty rejects a flag with an empty value, such as an unset variable in a script: --where "" would mean no condition and
// select every row. A setting may be empty, which unsets it.
func refuseEmpty(k *kong.Context) error {
	for _, p := range k.Path {
		if p.Flag == nil || p.Resolved || p.Flag.Tag.Get("setting") != "" {
			continue
		}
		if value := p.Flag.Target; value.Kind() == reflect.String && value.String() == "" {
			return usagef("--%s: its value is empty", p.Flag.Name)
		}
	}
	return nil
}

// withComments keeps SQL that begins with a comment from being taken for a flag.
func withComments(args []string) []string {
	out := slices.Clone(args)
	for i := 0; i+1 < len(out); i++ {
		if (out[i] == "-c" || out[i] == "--command") && strings.HasPrefix(out[i+1], "--") && strings.ContainsAny(out[i+1], " \t\n") {
			out = slices.Replace(out, i, i+2, "--command="+out[i+1])
		}
	}
	return out
}

// interruptible gives a context that the first SIGINT or SIGTERM cancels, so
// that a command can drain; a second one ends the process at once.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		cancel(errInterrupted)
		if _, ok := <-signals; ok {
			os.Exit(exitInterrupted)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}

var errInterrupted = errors.New("interrupted")

// interrupted says whether a signal has ended ctx.
func interrupted(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errInterrupted) }
