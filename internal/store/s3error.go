package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"smelt"
	"smelt/internal/trust"
)

var (
	errTimeout = errors.New("deadline of the call")
	errOrder   = errors.New("objects are not listed in the order of their keys")
)

// conflict is S3's answer to conditional puts that overlap: try again.
const conflict = "ConditionalRequestConflict"

// unknownUser is versitygw's answer to an access key that it does not know.
const unknownUser = "XAdminUserNotFound"

// Amazon's answers to temporary keys that are out of date, or not of one set.
const (
	expiredToken = "ExpiredToken"
	invalidToken = "InvalidToken"
)

// transient says whether the same call may well succeed in a moment.
func transient(err error) bool {
	var body *bodyError
	var answer minio.ErrorResponse
	switch {
	case errors.As(err, &body), noKeys(err), errors.Is(err, errOrder), errors.Is(err, smelt.ErrExists):
		return false
	case errors.Is(err, errQuiet):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return true // try asks its own ctx
	case trust.Fault(err) != "":
		return false
	case !errors.As(err, &answer):
		return true // the network
	}
	switch answer.Code {
	case conflict, "RequestTimeout", "SlowDown", "SlowDownRead", "SlowDownWrite", "InternalError",
		"Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "OperationAborted":
		return true
	}
	switch answer.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// answers says whether an error is what the server said, rather than that nothing
// was heard of it.
func answers(err error) bool {
	var answer minio.ErrorResponse
	return errors.As(err, &answer) && answer.Code != ""
}

// explain turns an error into an answer of the contract, the end of the
// caller's ctx, or a message that says what to do, of the kind ErrStore.
func (s *S3) explain(ctx context.Context, err error) error {
	var body *bodyError
	if errors.As(err, &body) || errors.Is(err, smelt.ErrExists) {
		return err
	}
	var answer minio.ErrorResponse
	if errors.As(err, &answer) && answer.Code != "" {
		return s.explainAnswer(answer)
	}
	switch {
	case ctx.Err() != nil && context.Cause(ctx) != errTimeout:
		return ctx.Err()
	case ctx.Err() != nil:
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("store: %s did not answer in time: is it up, and the network?", s.endpoint))
	case errors.Is(err, errQuiet) && !noKeys(err):
		return smelt.Mark(smelt.ErrStore, fmt.Errorf("store: %s is silent: no byte moved for %s: is it up, and the network?", s.endpoint, s.quiet))
	}
	return smelt.Mark(smelt.ErrStore, s.explainSilence(err))
}

func (s *S3) explainAnswer(answer minio.ErrorResponse) error {
	switch answer.Code {
	case minio.NoSuchKey:
		return smelt.ErrNotFound
	case minio.PreconditionFailed:
		return smelt.ErrExists
	}
	advice := s.advice(answer.Code)
	if plainText(answer.Message) {
		advice = fmt.Sprintf("store: %s: it wants TLS: begin SMELT_S3_ENDPOINT with https://", s.endpoint)
	}
	return smelt.Mark(smelt.ErrStore, fmt.Errorf("%s: %w", advice, &answered{answer}))
}

// plainText says whether a server that wants TLS has heard a request without:
// Go's answer, which is MinIO's too, and nginx's.
func plainText(message string) bool {
	return strings.Contains(message, "HTTP request to an HTTPS server") || strings.Contains(message, "sent to HTTPS port")
}

// advice says what an answer's code means to who set smelt up.
func (s *S3) advice(code string) string {
	switch code {
	case minio.NoSuchBucket:
		return fmt.Sprintf("store: bucket %s does not exist at %s: create it, or set SMELT_S3_BUCKET", s.bucket, s.endpoint)
	case minio.InvalidAccessKeyID, minio.SignatureDoesNotMatch, unknownUser:
		return fmt.Sprintf("store: access key or secret refused by %s: check SMELT_S3_ACCESS_KEY and SMELT_S3_SECRET_KEY", s.endpoint)
	case expiredToken, invalidToken:
		return fmt.Sprintf("store: %s refuses the session token: set new SMELT_S3_ACCESS_KEY, SMELT_S3_SECRET_KEY and SMELT_S3_SESSION_TOKEN", s.endpoint)
	case minio.AccessDenied, minio.AllAccessDisabled:
		return fmt.Sprintf("store: access to bucket %s denied by %s: check SMELT_S3_ACCESS_KEY, SMELT_S3_SECRET_KEY and what that key may do", s.bucket, s.endpoint)
	case minio.InvalidRegion, minio.AuthorizationHeaderMalformed, "PermanentRedirect":
		return fmt.Sprintf("store: %s serves another region: check SMELT_S3_REGION", s.endpoint)
	case minio.RequestTimeTooSkewed:
		return fmt.Sprintf("store: the clock here and that of %s differ too much: set them right", s.endpoint)
	case conflict:
		return fmt.Sprintf("store: another writer is at this key at %s: try again", s.endpoint)
	}
	return fmt.Sprintf("store: %s refused the request", s.endpoint)
}

// answered is what the server said, with its code.
type answered struct{ answer minio.ErrorResponse }

func (a *answered) Error() string {
	return fmt.Sprintf("%s (%s, HTTP %d)", strings.TrimSuffix(a.answer.Error(), "."), a.answer.Code, a.answer.StatusCode)
}

// explainSilence explains an error that is not an S3 answer. It keeps only the text, because some errors of net
// look like the end of a context.
func (s *S3) explainSilence(err error) error {
	if none := new(keyless); errors.As(err, &none) {
		return fmt.Errorf("store: %s: %v", s.endpoint, none)
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the URL, which the endpoint says shorter
	}
	if errors.Is(err, errOrder) {
		return fmt.Errorf("store: %s: %v: smelt needs an S3 that keeps it", s.endpoint, err)
	}
	if fault := trust.Fault(err); fault != "" {
		return fmt.Errorf("store: %s: %s; check SMELT_S3_ENDPOINT", s.endpoint, fault)
	}
	return fmt.Errorf("store: no answer from %s: is it up? check SMELT_S3_ENDPOINT: %v", s.endpoint, err)
}
