package store

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7/pkg/signer"

	"smelt"
)

// emptyPayload is the SHA-256 of no bytes, the body of every read.
const emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Reader passes requests without a body on to the store, signed with its keys,
// for those who speak S3 themselves. They name an object by path, "/bucket/key".
type Reader struct {
	store     *S3
	endpoint  *url.URL
	transport http.RoundTripper
	region    string
}

// Endpoint is the store's URL.
func (s *S3) Endpoint() string { return s.endpoint }

// Reader gives one that keeps so many idle connections.
func (s *S3) Reader(idle int) *Reader {
	transport := s.transport.Clone()
	transport.ResponseHeaderTimeout = quietTimeout
	transport.MaxIdleConnsPerHost = idle
	transport.DisableCompression = true // bytes pass unchanged
	return &Reader{store: s, endpoint: s.client.EndpointURL(), transport: transport, region: s.region}
}

// RoundTrip makes the request, twice when the keys were refused and are others by
// now. It is the caller's own, to be changed.
func (r *Reader) RoundTrip(request *http.Request) (*http.Response, error) {
	reply, keys, err := r.send(request)
	if err != nil || reply.StatusCode != http.StatusForbidden && reply.StatusCode != http.StatusBadRequest || !r.store.renewed(request.Context(), keys) {
		return reply, err
	}
	reply.Body.Close()
	reply, _, err = r.send(request)
	return reply, err
}

// send makes the request once, and returns the keys that it was signed with.
func (r *Reader) send(request *http.Request) (*http.Response, Keys, error) {
	keys, err := r.store.current(request.Context())
	if err != nil {
		return nil, keys, r.explain(request, err)
	}
	out := request.Clone(request.Context())
	for name := range out.Header {
		if name == "Authorization" || strings.HasPrefix(name, "X-Amz-") {
			out.Header.Del(name)
		}
	}
	out.URL.Scheme, out.URL.Host, out.Host = r.endpoint.Scheme, r.endpoint.Host, r.endpoint.Host
	out.Header.Set("X-Amz-Content-Sha256", emptyPayload)
	reply, err := r.transport.RoundTrip(signer.SignV4(*out, keys.Access, keys.Secret, keys.Session, r.region))
	return reply, keys, r.explain(request, err)
}

func (r *Reader) explain(request *http.Request, err error) error {
	if err == nil || request.Context().Err() != nil {
		return err
	}
	return smelt.Mark(smelt.ErrStore, r.store.explainSilence(err))
}
