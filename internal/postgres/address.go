package postgres

import (
	"cmp"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"smelt"
)

// Address is a connection string taken apart, for other programs.
type Address struct {
	Host     string
	Port     int
	Database string
	User     string
	Password string
	SSLMode  string // require, verify-ca or verify-full; "" where a connection need not be encrypted
	RootCert string // file of the authorities to trust that it names; "" where it names none
}

// ParseAddress takes a connection string apart; what it leaves out comes from
// the PG* variables of the environment, as in [Open].
func ParseAddress(dsn string) (Address, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return Address{}, smelt.Mark(smelt.ErrDatabase, errDSN)
	}
	mode := ""
	plain := slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
	switch {
	case c.TLSConfig == nil || plain:
	case !c.TLSConfig.InsecureSkipVerify:
		mode = "verify-full"
	case c.TLSConfig.VerifyPeerCertificate != nil:
		mode = "verify-ca"
	default:
		mode = "require"
	}
	return Address{
		Host: c.Host, Port: int(c.Port), Database: c.Database, User: c.User, Password: c.Password, SSLMode: mode,
		RootCert: cmp.Or(parameter(dsn, "sslrootcert"), os.Getenv("PGSSLROOTCERT")),
	}, nil
}

// parameter returns a parameter of a valid connection string, of which the parser drops some: "" if it is absent.
func parameter(dsn, name string) (value string) {
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		if u, err := url.Parse(dsn); err == nil {
			value = u.Query().Get(name)
		}
		return value
	}
	for {
		key, rest, ok := strings.Cut(dsn, "=")
		if !ok {
			return value
		}
		var v string
		if v, dsn = cutValue(strings.TrimLeft(rest, spaces)); strings.Trim(key, spaces) == name {
			value = v
		}
	}
}

// spaces are between the key=value pairs of a connection string.
const spaces = " \t\n\r\v\f"

// cutValue reads the value at the start of a text, quoted or up to a space. A backslash escapes the next byte.
func cutValue(text string) (value, rest string) {
	end := spaces
	text, quoted := strings.CutPrefix(text, "'")
	if quoted {
		end = "'"
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case strings.IndexByte(end, text[i]) >= 0:
			return b.String(), text[i+1:]
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}
