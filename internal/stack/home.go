package stack

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"smelt"
)

// homeMode lets PostgreSQL's own user pass through the folder if the stack runs as root, and lets nobody list it. Its
// contents are closed to others.
const homeMode = 0o711

// secrets are what a stack makes up at its first start and keeps.
type secrets struct {
	KafkaCluster     string `json:"kafka_cluster"`
	S3Secret         string `json:"s3_secret"`
	PostgresPassword string `json:"postgres_password"`
}

// lockHome makes the folder and locks it for this process, or fails with smelt.ErrLocked. The lock ends when the file is
// closed or the process ends.
func lockHome(home string) (*os.File, error) {
	if err := os.MkdirAll(home, homeMode); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	path := filepath.Join(home, "stack.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder, _ := os.ReadFile(path) // only to name it: an empty answer does no harm
		return nil, fmt.Errorf("state folder %s: %w (%s): a stack already runs there; use it, or stop it with scripts/stop.sh",
			home, smelt.ErrLocked, strings.TrimSpace(string(holder)))
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := errors.Join(f.Truncate(0), writeAt0(f, pid)); err != nil {
		f.Close()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return f, nil
}

func writeAt0(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// loadSecrets reads the secrets of the folder, or makes them up and keeps them.
func loadSecrets(home string) (secrets, error) {
	path := filepath.Join(home, "secrets.json")
	var s secrets
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(filepath.Join(home, "postgres")); err == nil {
			return s, fmt.Errorf("%s is missing, and the database accepts only its password: restore the file, or start over with scripts/reset.sh", path)
		}
		s = secrets{KafkaCluster: rand.Text(), S3Secret: rand.Text(), PostgresPassword: rand.Text()}
		return s, writeSecrets(path, s)
	}
	if err != nil {
		return s, fmt.Errorf("read the stack's passwords: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read the stack's passwords in %s: %w", path, err)
	}
	if s.KafkaCluster == "" || s.S3Secret == "" || s.PostgresPassword == "" {
		return s, fmt.Errorf("%s lacks a password: put the file back, or start afresh with scripts/reset.sh", path)
	}
	return s, nil
}

// writeSecrets writes the whole file or nothing. A database with a lost password could never be opened again.
func writeSecrets(path string, s secrets) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the stack's passwords: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "secrets-*") // mode 0600
	if err != nil {
		return fmt.Errorf("keep the stack's passwords: %w", err)
	}
	defer os.Remove(f.Name()) // gone already once it has been renamed
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("keep the stack's passwords: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("keep the stack's passwords: %w", err)
	}
	return nil
}

// Remove deletes the state of the stack of a folder: the log, the objects, the
// database (which may lie outside of the folder) and the passwords. It fails
// when a stack runs there. Other files of the folder stay.
func Remove(home string) error {
	home, err := filepath.Abs(home)
	if err != nil {
		return fmt.Errorf("state folder %s: %w", home, err)
	}
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := lockHome(home)
	if err != nil {
		return err
	}
	defer lock.Close()
	if target, err := os.Readlink(filepath.Join(home, "postgres")); err == nil {
		if err := os.RemoveAll(target); err != nil {
			return fmt.Errorf("remove the database: %w", err)
		}
	}
	for _, name := range []string{"kafka", "s3", "s3-meta", "postgres", "secrets.json"} {
		if err := os.RemoveAll(filepath.Join(home, name)); err != nil {
			return fmt.Errorf("remove the stack's state: %w", err)
		}
	}
	return nil
}
