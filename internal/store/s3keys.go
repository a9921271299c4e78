package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Keys are what an S3 knows a client by.
type Keys struct {
	Access  string
	Secret  string
	Session string // goes with temporary keys; lasting ones have none
}

// given are keys from the settings, which may change while smelt runs. It implements minio-go's provider, which
// asks when it has no keys, or after they expired.
type given struct {
	read func() (Keys, error) // nil: they do not change
	log  *slog.Logger

	mu   sync.Mutex
	keys Keys // as last read
}

// RetrieveWithCredContext reads the keys again. If that fails, the former keys stay; the error of their refusal
// says the rest.
func (g *given) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.read != nil {
		keys, err := g.read()
		switch {
		case err != nil:
			g.log.Warn("the S3 keys cannot be read again", "error", err)
		case keys != g.keys && keys.Access != "" && keys.Secret != "":
			g.log.Info("the S3 keys have changed: going on with the new ones", "access_key", keys.Access)
			g.keys = keys
		}
	}
	return credentials.Value{
		AccessKeyID: g.keys.Access, SecretAccessKey: g.keys.Secret, SessionToken: g.keys.Session, SignerType: credentials.SignatureV4,
	}, nil
}

// Retrieve is what RetrieveWithCredContext has replaced.
func (g *given) Retrieve() (credentials.Value, error) { return g.RetrieveWithCredContext(nil) }

// IsExpired says no: it is the store that says when keys no longer hold.
func (g *given) IsExpired() bool { return false }

// role are the keys that Amazon gives this machine, container or service account
// for a while.
type role struct{ credentials.IAM }

// RetrieveWithCredContext asks Amazon.
func (r *role) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	value, err := r.IAM.RetrieveWithCredContext(c)
	if err != nil {
		return value, &keyless{err}
	}
	return value, nil
}

// keyless is the error of having no keys for the store.
type keyless struct{ err error }

func (k *keyless) Error() string {
	return fmt.Sprintf("no keys are set, and Amazon gives this machine none (%v): set SMELT_S3_ACCESS_KEY and SMELT_S3_SECRET_KEY, or give it a role", k.err)
}

func (k *keyless) Unwrap() error { return k.err }

// noKeys says whether a request failed before it was sent, because there were no keys.
func noKeys(err error) bool {
	var none *keyless
	return errors.As(err, &none)
}

// credentials gives the client its keys: those that are set or, at Amazon, those
// of the machine's role.
func (cfg *S3Config) credentials(atAmazon bool) (*credentials.Credentials, error) {
	if cfg.AccessKey == "" && cfg.SecretKey == "" && atAmazon {
		return credentials.New(&role{credentials.IAM{Region: cfg.Region}}), nil
	}
	if cfg.AccessKey == "" || cfg.SecretKey == "" {
		return nil, errors.New("no access key or secret: set SMELT_S3_ACCESS_KEY and SMELT_S3_SECRET_KEY")
	}
	g := &given{keys: Keys{cfg.AccessKey, cfg.SecretKey, cfg.SessionToken}, read: cfg.Reread, log: cfg.Log}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	return credentials.New(g), nil
}

// renewed says whether the keys differ from those that were refused. It reads them again, unless another call has
// just done so.
func (s *S3) renewed(ctx context.Context, refused Keys) bool {
	if now, err := s.current(ctx); err == nil && now != refused {
		return true
	}
	s.keys.Expire()
	now, err := s.current(ctx)
	return err == nil && now != refused
}

// current are the keys that the next request will have. The error is keyless: who is
// to give them does not, or has not answered for as long as the store may be silent.
func (s *S3) current(ctx context.Context) (Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, s.quiet)
	defer cancel()
	from := s.client.CredContext()
	from.Context = ctx
	value, err := s.keys.GetWithContext(from)
	if err != nil {
		return Keys{}, err
	}
	return Keys{value.AccessKeyID, value.SecretAccessKey, value.SessionToken}, nil
}

// refused says whether the store does not know a key, or lets it do nothing.
func refused(err error) bool {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Code {
	case unknownUser, minio.InvalidAccessKeyID, minio.SignatureDoesNotMatch, expiredToken, invalidToken:
		return true
	}
	return answer.StatusCode == http.StatusForbidden
}
