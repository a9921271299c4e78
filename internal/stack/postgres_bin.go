package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloads are the versions that can be fetched, by their major.
var downloads = map[int]embeddedpostgres.PostgresVersion{
	14: embeddedpostgres.V14,
	15: embeddedpostgres.V15,
	16: embeddedpostgres.V16,
	17: embeddedpostgres.V17,
	18: embeddedpostgres.V18,
}

// newestDownload is what a machine without PostgreSQL begins with.
const newestDownload = 17

// findBinaries finds the folder of PostgreSQL's programs: of the database's version, or the newest without a database. It
// searches installed ones first, then downloaded ones, and then downloads them.
func findBinaries(ctx context.Context, root, data string, acct *account, log *slog.Logger) (string, error) {
	major, err := databaseMajor(data)
	if err != nil {
		return "", err
	}
	for _, bin := range installed() {
		got, err := binariesMajor(ctx, bin)
		if err == nil && (major == 0 || major == got) {
			return bin, nil
		}
	}
	if major == 0 {
		major = newestDownload
	}
	dist := filepath.Join(root, "postgresql-"+strconv.Itoa(major))
	bin := filepath.Join(dist, "bin")
	if complete(bin) {
		return bin, nil
	}
	if err := fetchBinaries(ctx, dist, major, acct, log); err != nil {
		return "", fmt.Errorf("no PostgreSQL %d here (%w): install it (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; macOS: brew install postgresql@%d), or set SMELT_POSTGRES_DSN to a database of yours", major, err, major)
	}
	return bin, nil
}

// databaseMajor reads which major version made the database; 0 when there is
// none.
func databaseMajor(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("the database's version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("the database's version in %s: %w", data, err)
	}
	return major, nil
}

// installed lists the folders with PostgreSQL's programs, the best first: the
// distribution's, the newest before the older, then those on the PATH.
func installed() []string {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // its only error is a bad pattern
	version := func(bin string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))) // 0, the oldest, for any other name
		return n
	}
	slices.SortFunc(bins, func(a, b string) int { return version(b) - version(a) })
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			bins = append(bins, filepath.Dir(path))
		}
	}
	return slices.DeleteFunc(bins, func(bin string) bool { return !complete(bin) })
}

// complete says whether a folder has the programs that the stack runs.
func complete(bin string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(bin, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// binariesMajor asks the server's program for its version, as in "postgres
// (PostgreSQL) 17.5".
func binariesMajor(ctx context.Context, bin string) (int, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", bin, err)
	}
	_, version, _ := strings.Cut(string(out), ") ")
	digits := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		return 0, fmt.Errorf("%s: no version in %q", bin, out)
	}
	return strconv.Atoi(version[:digits])
}

// fetchBinaries fetches a version into dist, all of it or nothing.
func fetchBinaries(ctx context.Context, dist string, major int, acct *account, log *slog.Logger) error {
	version, ok := downloads[major]
	if !ok {
		return errors.New("and none to download")
	}
	log.Info("downloading PostgreSQL, once; an installed one would be used instead", "version", string(version), "to", dist)
	fresh := dist + ".new"
	defer os.RemoveAll(fresh)
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := unpack(ctx, fresh, version); err != nil {
		return err
	}
	unpacked := filepath.Join(fresh, "dist")
	err := filepath.WalkDir(unpacked, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || acct == nil {
			return err
		}
		return os.Lchown(path, int(acct.uid), int(acct.gid))
	})
	if err != nil {
		return err
	}
	log.Info("downloaded PostgreSQL", "version", string(version))
	return os.Rename(unpacked, dist)
}

// unpack has the library download and unpack a version. The library would then start a server of its own. A locale that
// does not exist stops it after unpacking, so its error counts only if programs are missing.
func unpack(ctx context.Context, dir string, version embeddedpostgres.PostgresVersion) error {
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(version).
		Port(0).
		CachePath(filepath.Join(dir, "cache")).
		RuntimePath(filepath.Join(dir, "run")).
		DataPath(filepath.Join(dir, "run", "data")).
		BinariesPath(filepath.Join(dir, "dist")).
		Locale("none").
		Logger(nil))
	ended := make(chan error, 1)
	go func() { ended <- server.Start() }()
	select {
	case err := <-ended:
		if !complete(filepath.Join(dir, "dist", "bin")) {
			return fmt.Errorf("download of %s: %w", version, err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
