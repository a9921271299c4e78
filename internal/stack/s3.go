package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// Bucket is the bucket that the stack makes for the lake.
const Bucket = "lake"

const (
	region     = "us-east-1" // what S3 clients assume
	accessKey  = "smelt"
	healthPath = "/healthz"

	// s3Connections and s3Requests are far above what one machine's line, its
	// shells and its engines open, and bound what they can cost.
	s3Connections = 4096
	s3Requests    = 1024

	s3MaxParts      = 10_000  // S3's own bound on an upload
	s3CopyThreshold = 5 << 30 // bytes; S3's own bound on a copy

	s3ReadyTimeout = 10 * time.Second
	s3StopTimeout  = 3 * time.Second // for requests under way
)

// gateway is an S3 server over a folder. The err of one that has ended says
// why.
type gateway struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// startS3 serves the objects under home and makes the lake's bucket. It changes
// the working directory of the process.
func startS3(ctx context.Context, home string, p ports, secret string) (*gateway, error) {
	root := filepath.Join(home, "s3")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	attributes, err := attributeStore(root, filepath.Join(home, "s3-meta"))
	if err != nil {
		return nil, err
	}
	backend, err := posix.New(root, attributes, posix.PosixOpts{CopyObjectThreshold: s3CopyThreshold})
	if err != nil {
		return nil, fmt.Errorf("open the objects in %s: %w", root, err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g := &gateway{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		g.err = embedgw.RunVersityGW(running, backend, &embedgw.Config{
			RootUserAccess:    accessKey,
			RootUserSecret:    secret,
			IAMService:        auth.NewIAMServiceSingle(auth.Account{Access: accessKey, Secret: secret, Role: auth.RoleAdmin}),
			Region:            region,
			Ports:             []string{address(p.s3)},
			WebuiPorts:        []string{address(p.console)},
			CORSAllowOrigin:   "*", // the console's; every request is signed, so no origin has rights of its own
			MaxConnections:    s3Connections,
			MaxRequests:       s3Requests,
			MultipartMaxParts: s3MaxParts,
			HealthPath:        healthPath,
			KeepAlive:         true,
			Quiet:             true,
		})
	}()
	if err := g.ready(ctx, address(p.s3), secret); err != nil {
		g.stop()
		return nil, err
	}
	return g, nil
}

// attributeStore keeps objects' metadata in extended attributes, or in files
// beside the objects where the file system has none. A folder stays with what
// it began with.
func attributeStore(root, sideCar string) (meta.MetadataStorer, error) {
	_, err := os.Stat(sideCar)
	if errors.Is(err, fs.ErrNotExist) {
		if (meta.XattrMeta{}).Test(root) == nil {
			return meta.XattrMeta{}, nil
		}
		err = os.Mkdir(sideCar, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the objects' metadata: %w", err)
	}
	return meta.NewSideCar(sideCar)
}

// ready waits until a client with the stack's keys finds the bucket.
func (g *gateway) ready(ctx context.Context, addr, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, s3ReadyTimeout)
	defer cancel()
	client, err := minio.New(addr, &minio.Options{
		Creds:      credentials.NewStaticV4(accessKey, secret, ""),
		Region:     region,
		MaxRetries: 1,
	})
	if err != nil {
		return err
	}
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		err := ensureBucket(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-g.ended:
			return g.err
		case <-ctx.Done():
			return fmt.Errorf("bucket %s at %s: %w", Bucket, addr, err)
		}
	}
}

func ensureBucket(ctx context.Context, client *minio.Client) error {
	exists, err := client.BucketExists(ctx, Bucket)
	if err != nil || exists {
		return err
	}
	return client.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{Region: region})
}

// stop ends the server. Requests under way get a moment to finish. The library
// waits five seconds for a connection on which no request has come yet, as a
// client keeps in reserve; stop does not, and the process ends with it. A
// request that takes longer is cut off, which leaves no object behind.
func (g *gateway) stop() {
	g.cancel()
	select {
	case <-g.ended:
	case <-time.After(s3StopTimeout):
	}
}
