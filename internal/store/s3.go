package store

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"smelt"
)

const (
	defaultRegion = "us-east-1"      // what servers of one's own answer to
	dialTimeout   = 5 * time.Second  // a connection takes milliseconds; longer means that no server is there
	quietTimeout  = 20 * time.Second // no byte moves, either way: a deletion of 1000 objects takes a slow server seconds
	callTimeout   = time.Minute      // a whole call that carries no object's bytes, retries included
	moveTimeout   = 5 * time.Minute  // a whole transfer of one object, retries included: 128 MiB at 0.5 MB/s
	listPage      = 1000             // keys: the most that S3 lists or deletes in one request
)

// S3Config says where a bucket is and who asks.
type S3Config struct {
	Endpoint string // http://host:port, https://host, or host:port
	Secure   bool   // HTTPS, for an endpoint without a scheme
	Region   string // us-east-1 when empty, outside of Amazon
	Bucket   string

	// Without keys those of the machine's role are used, at Amazon.
	AccessKey    string
	SecretKey    string
	SessionToken string               // goes with temporary keys
	Reread       func() (Keys, error) // reads the keys again when they are refused; nil: they do not change

	TLS *tls.Config  // the authorities to trust; nil: the system's
	Log *slog.Logger // may be nil
}

// S3 is a [smelt.Store] over one bucket of an S3 that enforces If-None-Match,
// which [S3.Check] finds out. A conditional put that is tried again after a lost
// reply answers [smelt.ErrExists], although the object is its own: who needs to
// know reads back whose it is.
type S3 struct {
	client    minio.Core
	keys      *credentials.Credentials
	transport *transport
	bucket    string
	region    string
	endpoint  string        // with its scheme
	quiet     time.Duration // quietTimeout, but for tests
}

// OpenS3 returns the store of a bucket. It makes no request: [S3.Check] does.
// Its ctx is for credentials that have to be fetched.
func OpenS3(_ context.Context, cfg S3Config) (*S3, error) {
	s, err := openS3(cfg)
	if err != nil {
		return nil, smelt.Mark(smelt.ErrStore, fmt.Errorf("store: %w", err))
	}
	return s, nil
}

func openS3(cfg S3Config) (*S3, error) {
	host, secure, err := splitEndpoint(cfg.Endpoint, cfg.Secure)
	if err != nil {
		return nil, fmt.Errorf("the endpoint: %w: check SMELT_S3_ENDPOINT", err) // without the text, in which a password may be
	}
	if err := s3utils.CheckValidBucketName(cfg.Bucket); err != nil {
		return nil, fmt.Errorf("bucket %q: %w: check SMELT_S3_BUCKET", cfg.Bucket, err)
	}
	atAmazon := s3utils.IsAmazonEndpoint(url.URL{Host: host})
	keys, err := cfg.credentials(atAmazon)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" && !atAmazon {
		cfg.Region = defaultRegion
	}
	transport, err := newTransport(secure, cfg.TLS)
	if err != nil {
		return nil, err
	}
	client, err := minio.NewCore(host, &minio.Options{
		Creds:        keys,
		Secure:       secure,
		Region:       cfg.Region,
		Transport:    transport,
		BucketLookup: minio.BucketLookupAuto, // by path, unless the endpoint is a big cloud's
		MaxRetries:   1,                      // try does them, with a body of its own for each
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w: check SMELT_S3_ENDPOINT", host, err)
	}
	return &S3{
		client: *client, keys: keys, transport: transport,
		bucket: cfg.Bucket, region: cfg.Region, endpoint: client.EndpointURL().String(), quiet: quietTimeout,
	}, nil
}

// splitEndpoint takes the scheme off an endpoint; without one secure stands.
func splitEndpoint(endpoint string, secure bool) (host string, https bool, err error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = map[bool]string{false: "http://", true: "https://"}[secure] + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", false, errEndpoint // url's own error quotes the text
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", false, fmt.Errorf("scheme %q is neither http nor https", u.Scheme)
	}
	if u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", false, errEndpoint
	}
	return u.Host, u.Scheme == "https", nil
}

var errEndpoint = errors.New("want http://host:port, with nothing before or after it")

func newTransport(secure bool, trusted *tls.Config) (*transport, error) {
	t, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	t.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	t.ResponseHeaderTimeout = 0 // each attempt is watched
	if secure && trusted != nil {
		t.TLSClientConfig = trusted.Clone()
	}
	return &transport{t}, nil
}

// Get opens an object. The whole transfer has five minutes, and each read of the
// body twenty seconds.
func (s *S3) Get(ctx context.Context, key string) (io.ReadCloser, smelt.Object, error) {
	if err := checkKey(key); err != nil {
		return nil, smelt.Object{}, fmt.Errorf("get %q: %w", key, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, moveTimeout, errTimeout)
	var body io.ReadCloser
	var info minio.ObjectInfo
	w, err := s.attempt(ctx, func(w *watch) (err error) {
		body, info, _, err = s.client.GetObject(w.ctx, s.bucket, key, minio.GetObjectOptions{})
		return err
	})
	if err != nil {
		cancel()
		return nil, smelt.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	w.rest() // until the body is read
	return &download{s: s, ctx: ctx, cancel: cancel, watch: w, body: body}, describe(key, info), nil
}

// Stat describes an object.
func (s *S3) Stat(ctx context.Context, key string) (smelt.Object, error) {
	if err := checkKey(key); err != nil {
		return smelt.Object{}, fmt.Errorf("stat %q: %w", key, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	var info minio.ObjectInfo
	err := s.try(ctx, func(w *watch) (err error) {
		info, err = s.stat(w.ctx, key)
		return err
	})
	if err != nil {
		return smelt.Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return describe(key, info), nil
}

// stat uses HEAD. An error reply to HEAD has no body. So it cannot distinguish a missing key from a missing bucket or,
// with versitygw, an unknown access key. Then stat uses GET, whose error says why.
func (s *S3) stat(ctx context.Context, key string) (minio.ObjectInfo, error) {
	info, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusNotFound, http.StatusForbidden, http.StatusBadRequest:
		body, info, _, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
		if err != nil {
			return minio.ObjectInfo{}, err
		}
		return info, body.Close()
	}
	return info, err
}

func describe(key string, info minio.ObjectInfo) smelt.Object {
	meta := make(map[string]string, len(info.UserMetadata))
	for name, value := range info.UserMetadata {
		meta[strings.ToLower(name)] = value
	}
	return smelt.Object{Key: key, Size: info.Size, Modified: info.LastModified, Meta: meta}
}

// Put writes a whole object in one request.
func (s *S3) Put(ctx context.Context, key string, body io.ReadSeeker, opts smelt.PutOptions) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("put %q: %w", key, err)
	}
	if err := checkMeta(opts.Meta); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, moveTimeout, errTimeout)
	defer cancel()
	if err := s.put(ctx, key, body, opts); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

func (s *S3) put(ctx context.Context, key string, body io.ReadSeeker, opts smelt.PutOptions) error {
	size, digest, err := measure(body)
	if err != nil {
		return err
	}
	how := minio.PutObjectOptions{
		UserMetadata:         opts.Meta,
		DisableContentSha256: true, // that of minio-go's framing, which some servers store
		DisableMultipart:     true, // the condition is dropped when parts are completed
	}
	if opts.IfAbsent {
		how.SetMatchETagExcept("*")
	}
	return s.try(ctx, func(w *watch) error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return &bodyError{err}
		}
		lent := &loan{body: body, watch: w}
		_, err := s.client.PutObject(w.ctx, s.bucket, key, lent, size, "", digest, how)
		if broken := lent.end(); broken != nil && err != nil {
			return &bodyError{broken}
		}
		if err != nil && opts.IfAbsent && lent.began && !answers(err) && s.taken(w.ctx, key) {
			return smelt.ErrExists
		}
		return err
	})
}

// taken says whether a key is known to be taken, after a conditional put without an
// answer. A server may refuse before it has the whole body, and close: what the
// client then sees is a connection that broke as it was sending, on each try again.
func (s *S3) taken(ctx context.Context, key string) bool {
	_, err := s.stat(ctx, key)
	return err == nil
}

// measure reads a body for its size and its SHA-256 in hex. The digest is part of the request, because some
// servers (versitygw 1.8) keep a partial body as the object if a writer dies.
func measure(body io.ReadSeeker) (size int64, digest string, err error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return 0, "", &bodyError{err}
	}
	hash := sha256.New()
	size, err = io.Copy(hash, body)
	if err != nil {
		return 0, "", &bodyError{err}
	}
	return size, hex.EncodeToString(hash.Sum(nil)), nil
}

// List returns the first objects after a key, in the order of their bytes.
func (s *S3) List(ctx context.Context, prefix, after string, limit int) ([]smelt.Object, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	var found []smelt.Object
	err := s.try(ctx, func(w *watch) (err error) {
		// A second try goes on where the first one broke off.
		if n := len(found); n > 0 {
			after = found[n-1].Key
		}
		found, err = s.list(w.ctx, found, prefix, after, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	return found, nil
}

func (s *S3) list(ctx context.Context, found []smelt.Object, prefix, after string, limit int) ([]smelt.Object, error) {
	if len(found) >= limit {
		return found, ctx.Err()
	}
	owner := false
	for info := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{
		Prefix:     prefix,
		StartAfter: after,
		Recursive:  true,
		MaxKeys:    min(limit-len(found), listPage),
		FetchOwner: &owner,
	}) {
		if info.Err != nil {
			return found, info.Err
		}
		if info.Key <= after {
			return found, fmt.Errorf("%w: %q came after %q", errOrder, info.Key, after)
		}
		after = info.Key
		found = append(found, smelt.Object{Key: info.Key, Size: info.Size, Modified: info.LastModified})
		if len(found) == limit {
			return found, nil
		}
	}
	return found, ctx.Err() // the listing ends without a word when ctx does
}

// Delete removes objects, those that exist.
func (s *S3) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return fmt.Errorf("delete %q: %w", key, err)
		}
	}
	for batch := range slices.Chunk(keys, listPage) {
		if err := s.deleteBatch(ctx, batch); err != nil {
			return fmt.Errorf("delete %s and %d more: %w", batch[0], len(batch)-1, err)
		}
	}
	return nil
}

func (s *S3) deleteBatch(ctx context.Context, keys []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	return s.try(ctx, func(w *watch) error {
		if len(keys) == 1 {
			return present(s.client.RemoveObject(w.ctx, s.bucket, keys[0], minio.RemoveObjectOptions{}))
		}
		results, err := s.client.RemoveObjectsWithIter(w.ctx, s.bucket, func(yield func(minio.ObjectInfo) bool) {
			for _, key := range keys {
				if !yield(minio.ObjectInfo{Key: key}) {
					return
				}
			}
		}, minio.RemoveObjectsOptions{})
		if err != nil {
			return err
		}
		var first error
		for r := range results {
			if err := present(r.Err); err != nil && first == nil {
				first = err
			}
		}
		if first == nil {
			first = w.ctx.Err() // the results end without a word when ctx does
		}
		return first
	})
}

// present forgives that an object to be deleted is not there.
func present(err error) error {
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil
	}
	return err
}
