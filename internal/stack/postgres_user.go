package stack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// passMode lets the server's user pass through a folder and see nothing of it.
const passMode = 0o711

// account is the user of the server if the stack runs as root, because PostgreSQL does not run as root. nil means the stack's
// own user.
type account struct {
	name     string
	uid, gid uint32
}

// serverAccount chooses the account: the owner of an existing database, else the user postgres, else nobody.
func serverAccount(data string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(data); err == nil {
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 0 {
			return &account{"user " + strconv.Itoa(int(owner.Uid)), owner.Uid, owner.Gid}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &account{name, uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody: run smelt as another user, or set SMELT_POSTGRES_DSN to a database of yours")
}

// credential is for the start of a process as the account.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own gives the account a file.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// mkdir makes a folder that is the account's alone.
func (a *account) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return a.own(path)
}

// reaches says whether the account may pass through a folder and all of its
// parents, by their permission bits.
func (a *account) reaches(path string) (bool, error) {
	if a == nil {
		return true, nil
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		bit := fs.FileMode(0o001)
		switch owner := info.Sys().(*syscall.Stat_t); {
		case owner.Uid == a.uid:
			bit = 0o100
		case owner.Gid == a.gid:
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return false, nil
		}
		if path == filepath.Dir(path) {
			return true, nil
		}
	}
}

// serverFolder finds or makes the folder of the database, its binaries and its
// log. It is home, unless the account cannot reach that, as under /root: then
// it is a folder where it can, and home is a link to it.
func serverFolder(home string, acct *account) (string, error) {
	_, err := os.Lstat(home)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeServerFolder(home, acct)
	}
	if err != nil {
		return "", fmt.Errorf("the database's folder: %w", err)
	}
	root, err := filepath.EvalSymlinks(home)
	if err != nil {
		return "", fmt.Errorf("the database's folder is missing: %w: restore it, or start over with scripts/reset.sh", err)
	}
	ok, err := acct.reaches(root)
	if err != nil {
		return "", fmt.Errorf("the database's folder: %w", err)
	}
	if !ok {
		return "", fmt.Errorf("the database's folder %s cannot be reached by %s, as which PostgreSQL runs: make its parents passable (chmod o+x), or run smelt as their owner", root, acct.name)
	}
	return root, nil
}

func makeServerFolder(home string, acct *account) error {
	ok, err := acct.reaches(filepath.Dir(home))
	if err != nil {
		return err
	}
	if ok {
		return os.Mkdir(home, passMode)
	}
	elsewhere, err := makeElsewhere(acct)
	if err != nil {
		return err
	}
	if err := os.Symlink(elsewhere, home); err != nil {
		return errors.Join(err, os.Remove(elsewhere))
	}
	return nil
}

// makeElsewhere makes a folder that the account can reach and that a reboot
// leaves alone. Its name is new, so that the database of a state folder that
// was deleted by hand is never taken for this one's.
func makeElsewhere(acct *account) (string, error) {
	for _, parent := range []string{"/var/lib", "/var/tmp"} {
		if ok, err := acct.reaches(parent); err != nil || !ok {
			continue
		}
		path, err := os.MkdirTemp(parent, "smelt-postgres-")
		if err != nil {
			continue
		}
		return path, os.Chmod(path, passMode)
	}
	return "", fmt.Errorf("%s, as which PostgreSQL runs, cannot reach the state folder: set SMELT_HOME to a folder outside of /root", acct.name)
}
