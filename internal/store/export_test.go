package store

import (
	"context"
	"fmt"

	"github.com/minio/minio-go/v7"
)

// CreateBucket creates the bucket unless it is there.
func (s *S3) CreateBucket(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	err := s.try(ctx, func() error {
		err := s.client.MakeBucket(ctx, s.bucket, minio.MakeBucketOptions{})
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
