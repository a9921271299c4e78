package duck

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// installTimeout bounds DuckDB's download of an extension; the largest has 18 MB. Without a network it fails at once.
	installTimeout = 60 * time.Second

	// pipTimeout bounds the download of an extension's package.
	pipTimeout = 3 * time.Minute

	// maxExtension in bytes is far above the largest extension, unpacked: 51 MB.
	maxExtension = 512 << 20
)

// extensions are what the shell reads the lake with, in the order in which they
// load: iceberg needs avro.
var extensions = []string{"httpfs", "avro", "iceberg"}

// Extensions ensures that the shell's extensions for this version and platform are in dir, which becomes DuckDB's
// extension_directory. DuckDB installs missing ones. If that fails, the file is taken from the package that pip
// downloads. The line itself needs no extension.
func (db *DB) Extensions(ctx context.Context, dir string, log *slog.Logger) error {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("duckdb connection: %w", err)
	}
	defer conn.Close()
	s := &Session{db: db, conn: conn}
	var version, platform string
	if err := s.Row(ctx, "SELECT library_version FROM pragma_version()", &version); err != nil {
		return err
	}
	if err := s.Row(ctx, "PRAGMA platform", &platform); err != nil {
		return err
	}
	folder := filepath.Join(dir, version, platform)
	missing := slices.DeleteFunc(slices.Clone(extensions), func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name+suffix))
		return err == nil
	})
	if len(missing) == 0 {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("folder of duckdb's extensions: %w", err)
	}
	log.Info("fetching duckdb's extensions for the query shell", "extensions", strings.Join(missing, ","), "folder", folder)
	installed := s.install(ctx, dir, missing)
	if installed == nil {
		return nil
	}
	packaged := download(ctx, folder, strings.TrimPrefix(version, "v"), missing)
	if packaged == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the query shell needs duckdb's extensions %s for %s %s, and they could not be fetched:\n"+
		"  by INSTALL: %w\n  by pip: %w\nOn a machine with a network fetch %s of that version and platform, and put them into %s",
		strings.Join(extensions, ", "), version, platform, installed, packaged, "NAME"+suffix, folder)
}

// suffix ends the name of an extension's file.
const suffix = ".duckdb_extension"

// install has DuckDB download extensions.
func (s *Session) install(ctx context.Context, dir string, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if err := s.Exec(ctx, "SET extension_directory = "+Literal(dir)); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := s.conn.ExecContext(ctx, "INSTALL "+name); err != nil {
			head, _, _ := strings.Cut(err.Error(), "\n")
			return errors.New(head)
		}
	}
	return nil
}

// download takes extensions out of their packages for Python.
func download(ctx context.Context, folder, version string, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, pipTimeout)
	defer cancel()
	temp, err := os.MkdirTemp(folder, "pip-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	for _, name := range names {
		if err := pip(ctx, temp, "duckdb-extension-"+name+"=="+version); err != nil {
			return err
		}
		wheels, err := filepath.Glob(filepath.Join(temp, "duckdb_extension_"+name+"-*.whl"))
		if err != nil || len(wheels) == 0 {
			return errors.Join(err, fmt.Errorf("pip has left no package of %s", name))
		}
		if err := unpack(wheels[0], name+suffix, folder); err != nil {
			return fmt.Errorf("package of %s: %w", name, err)
		}
	}
	return nil
}

// pip downloads one package, built for this platform, by the first pip there is.
func pip(ctx context.Context, dir, requirement string) error {
	tried := errors.New("no such file")
	for _, command := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}} {
		if _, err := exec.LookPath(command[0]); err != nil {
			continue
		}
		args := append(command[1:], "download", "--quiet", "--disable-pip-version-check",
			"--no-deps", "--only-binary=:all:", "--dest", dir, requirement)
		out, err := exec.CommandContext(ctx, command[0], args...).CombinedOutput()
		if err == nil {
			return nil
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		tried = fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, lines[len(lines)-1])
	}
	return tried
}

// unpack copies the file of a name out of an archive into a folder, whole or
// not at all.
func unpack(archive, name, folder string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer r.Close()
	i := slices.IndexFunc(r.File, func(f *zip.File) bool { return path.Base(f.Name) == name })
	if i < 0 {
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	from, err := r.File[i].Open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(folder, name+".*")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // gone already once it has been renamed
	_, err = io.Copy(to, io.LimitReader(from, maxExtension))
	if err := errors.Join(err, to.Chmod(0o644), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), filepath.Join(folder, name))
}
