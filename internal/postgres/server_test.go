package postgres_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"smelt"
	"smelt/internal/postgres"
)

// server is the PostgreSQL of this test binary; nil when the machine has none.
var server *testServer

type testServer struct {
	bin, folder string
	data        string // its folder
	attributes  *syscall.SysProcAttr
	process     *exec.Cmd

	address   string
	password  string
	databases atomic.Int64
}

func TestMain(m *testing.M) {
	// The server dies with the thread that started it, which is this one.
	runtime.LockOSThread()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	bin := findBinaries()
	if bin == "" {
		fmt.Fprintln(os.Stderr, "no PostgreSQL on this machine: its tests are skipped")
		return m.Run()
	}
	s, stop, err := start(bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start PostgreSQL:", err)
		return 1
	}
	defer stop()
	server = s
	return m.Run()
}

func findBinaries() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	return ""
}

// start makes a database cluster and runs a server on it.
func start(bin string) (_ *testServer, stop func(), err error) {
	folder, err := os.MkdirTemp("", "smelt-postgres-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(folder) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	s := &testServer{
		bin: bin, folder: folder, data: filepath.Join(folder, "data"), password: rand.Text(),
		attributes: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if s.attributes.Credential, err = unprivileged(folder); err != nil {
			return nil, nil, err
		}
	}
	passwordFile := filepath.Join(folder, "password")
	if err := os.WriteFile(passwordFile, []byte(s.password), 0o644); err != nil {
		return nil, nil, err
	}
	initdb := s.command("initdb", "-U", "postgres", "--pwfile="+passwordFile,
		"-A", "scram-sha-256", "--locale=C", "--encoding=UTF8", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	s.address = net.JoinHostPort("127.0.0.1", port)
	if err := s.run(); err != nil {
		return nil, nil, err
	}
	return s, func() {
		s.end(syscall.SIGINT)
		remove()
	}, nil
}

// command is a program of the server's over its data.
func (s *testServer) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), append([]string{"-D", s.data}, args...)...)
	cmd.Dir, cmd.SysProcAttr = s.folder, s.attributes
	return cmd
}

// run starts the server, which ends with the thread that does so.
func (s *testServer) run() error {
	_, port, _ := net.SplitHostPort(s.address)
	s.process = s.command("postgres", "-p", port, "-h", "127.0.0.1",
		"-k", "", "-F", "-c", "max_connections=300", "-c", "deadlock_timeout=100ms")
	log, err := s.process.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	if err := awaitReady(log); err != nil {
		s.end(syscall.SIGINT)
		return err
	}
	return nil
}

// end ends the server.
func (s *testServer) end(signal syscall.Signal) {
	_ = s.process.Process.Signal(signal)
	_ = s.process.Wait()
}

// unprivileged is the user postgres or nobody, which then owns folder.
func unprivileged(folder string) (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(folder, uid, gid)
}

// awaitReady reads the server's log until it takes connections, and goes on
// reading so that the server never waits for its log.
func awaitReady(log interface{ Read([]byte) (int, error) }) error {
	ready := make(chan error, 1)
	go func() {
		var last string
		for lines := bufio.NewScanner(log); lines.Scan(); {
			last = lines.Text()
			if strings.Contains(last, "ready to accept connections") {
				ready <- nil
			}
		}
		select {
		case ready <- fmt.Errorf("ended with: %s", last):
		default:
		}
	}()
	select {
	case err := <-ready:
		return err
	case <-time.After(30 * time.Second):
		return fmt.Errorf("no answer within 30 s")
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// database is a fresh database, and a superuser's connection to it.
type database struct {
	name  string
	admin *pgx.Conn
}

func setup(t *testing.T) *database {
	t.Helper()
	if server == nil {
		t.Skip("no PostgreSQL on this machine (looked in /usr/lib/postgresql and PATH)")
	}
	d := &database{name: fmt.Sprintf("test_%d", server.databases.Add(1))}
	root := connect(t, dsn("postgres", server.password, "postgres"))
	mustExec(t, root, "CREATE DATABASE "+d.name)
	d.admin = connect(t, d.dsn())
	return d
}

// dsn is how a client reaches a database of the server.
func (s *testServer) dsn(user, password, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: s.address, Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}

func dsn(user, password, database string) string { return server.dsn(user, password, database) }

func (d *database) dsn() string { return dsn("postgres", server.password, d.name) }

// role makes a role without any right and returns its name and DSN.
func (d *database) role(t *testing.T) (name, dsnOfRole string) {
	t.Helper()
	name = "role_of_" + d.name
	mustExec(t, d.admin, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", name, server.password))
	return name, dsn(name, server.password, d.name)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func open(t *testing.T, dsn string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// locations is the reference that most tests use.
func locations() []smelt.Reference {
	return []smelt.Reference{{Name: "locations", Table: "public.locations", Key: "sensor_id", On: "sensor_id"}}
}

const createLocations = `
CREATE TABLE public.locations (sensor_id text PRIMARY KEY, city text);
INSERT INTO public.locations VALUES ('hel-001', 'Espoo'), ('nyc-001', 'New York')`
