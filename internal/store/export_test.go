package store

import (
	"context"
	"fmt"
	"time"

	"github.com/minio/minio-go/v7"
)

// CreateBucket creates the bucket unless it is there.
func (s *S3) CreateBucket(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	err := s.try(ctx, func(w *watch) error {
		err := s.client.MakeBucket(w.ctx, s.bucket, minio.MakeBucketOptions{})
		switch minio.ToErrorResponse(err).Code {
		case minio.BucketAlreadyOwnedByYou, minio.BucketAlreadyExists:
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", s.bucket, err)
	}
	return nil
}

// Quiet sets how long no byte may move.
func (s *S3) Quiet(d time.Duration) { s.quiet = d }

// RetryAfter is how long a reply asks to wait.
var RetryAfter = retryAfter

// Current are the keys that the next request will have.
func (s *S3) Current(ctx context.Context) (Keys, error) { return s.current(ctx) }
