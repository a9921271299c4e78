package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"

	"smelt"
)

// probePrefix is where Check puts the object that it tries the store with.
const probePrefix = ".smelt/probe-"

// Check verifies that the bucket exists, that the keys may list, write and delete in it, and that the store enforces
// If-None-Match. Without that, two writers of one position would both succeed.
func (s *S3) Check(ctx context.Context) error {
	if _, err := s.List(ctx, probePrefix, "", 1); err != nil {
		return err
	}
	key := probePrefix + strings.ToLower(rand.Text())
	err := s.checkCondition(ctx, key)
	if left := s.Delete(ctx, key); err == nil {
		err = left
	}
	return err
}

func (s *S3) checkCondition(ctx context.Context, key string) error {
	once := smelt.PutOptions{IfAbsent: true}
	err := s.Put(ctx, key, strings.NewReader("1"), once)
	if err == nil {
		err = s.Put(ctx, key, strings.NewReader("2"), once)
	}
	if errors.Is(err, smelt.ErrExists) {
		return nil // the key is random, so that even a first put that hears this has met itself
	}
	var said *answered
	if err != nil && !(errors.As(err, &said) && said.answer.Code == minio.NotImplemented) {
		return err
	}
	return smelt.Mark(smelt.ErrStore, fmt.Errorf("store: %s does not enforce If-None-Match, so that nothing would be "+
		"exactly once: use an S3 that does (Amazon S3, MinIO, versitygw)", s.endpoint))
}
