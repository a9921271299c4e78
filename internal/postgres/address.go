package postgres

import (
	"slices"

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
	}, nil
}
