package ingest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"smelt"
	"smelt/internal/trust"
)

// dialTimeout bounds one attempt to reach a broker: long for a slow network,
// short for a person who waits for the answer.
const dialTimeout = 5 * time.Second

// helloTimeout bounds the first exchange with the cluster: a dial, the log-in
// and the look-up of the topic.
const helloTimeout = 15 * time.Second

// Cluster says how to reach a Kafka cluster.
type Cluster struct {
	Brokers []string    // host:port, of one or more of its brokers
	TLS     *tls.Config // nil: no encryption
	SASL    SASL
}

// SASL says how to log in. An empty mechanism means no log-in.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or empty
	User      string
	Password  string
}

// dial connects to the cluster and looks up the topic. The error says which of
// the two did not work, and the details' Err what is wrong with the topic.
func (c Cluster) dial(ctx context.Context, topic string, log *slog.Logger, opts ...kgo.Opt) (*kgo.Client, kadm.TopicDetail, error) {
	common, err := c.options(log)
	if err != nil {
		return nil, kadm.TopicDetail{}, smelt.Mark(smelt.ErrSource, err)
	}
	client, err := kgo.NewClient(append(common, opts...)...)
	if err != nil {
		return nil, kadm.TopicDetail{}, smelt.Mark(smelt.ErrSource, fmt.Errorf("kafka client: %w", err))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helloTimeout, errNoAnswer)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		err = unanswered(ctx, err)
		if dial := new(net.OpError); errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) && !(errors.As(err, &dial) && dial.Op == "dial") {
			err = c.hungUp(err)
		}
		return nil, kadm.TopicDetail{}, c.explain(topic, err)
	}
	details, err := kadm.NewClient(client).ListTopicsWithInternal(ctx, topic)
	if err != nil {
		client.Close()
		return nil, kadm.TopicDetail{}, c.explain(topic, unanswered(ctx, err))
	}
	return client, details[topic], nil
}

var errNoAnswer = fmt.Errorf("no answer within %s: is it up, and the network?", helloTimeout)

// unanswered tells the end of helloTimeout from that of the caller's context.
func unanswered(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == errNoAnswer {
		return errNoAnswer
	}
	return err
}

// Check reaches the cluster and looks the topic up: what OpenKafka would say of
// them, without joining a group.
func (c Cluster) Check(ctx context.Context, topic string) error {
	client, details, err := c.dial(ctx, topic, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer client.Close()
	return c.usable(topic, details)
}

// usable says what is wrong with a topic that was looked up. One that is short
// of a leader, say, is waited for.
func (c Cluster) usable(topic string, details kadm.TopicDetail) error {
	err := c.explain(topic, details.Err)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%w: create it, or set source.kafka in pipeline.yml", err)
	case kerr.IsRetriable(err):
		return nil
	}
	return err
}

// hungUp says what it means that a broker closes the connection as a greeting.
func (c Cluster) hungUp(err error) error {
	switch {
	case c.SASL.Mechanism != "" && c.TLS != nil:
		return fmt.Errorf("it closed the connection: wrong user or password for user %q, or it does not speak TLS: see SMELT_KAFKA_SASL_… and SMELT_KAFKA_TLS: %w", c.SASL.User, err)
	case c.SASL.Mechanism != "":
		return fmt.Errorf("it closed the connection at the log-in: wrong user or password for user %q, or TLS is wanted: see SMELT_KAFKA_SASL_… and SMELT_KAFKA_TLS: %w", c.SASL.User, err)
	case c.TLS != nil:
		return fmt.Errorf("it closed the connection: it does not speak TLS, or wants a log-in (SASL): unset SMELT_KAFKA_TLS, name its TLS port in SMELT_KAFKA_BROKERS, or set SMELT_KAFKA_SASL_…: %w", err)
	}
	return fmt.Errorf("it closed the connection: TLS or a log-in (SASL) is wanted: set SMELT_KAFKA_TLS=true or SMELT_KAFKA_SASL_…: %w", err)
}

// options are those that every client has.
func (c Cluster) options(log *slog.Logger) ([]kgo.Opt, error) {
	if len(c.Brokers) == 0 {
		return nil, errors.New("no kafka broker is given: set SMELT_KAFKA_BROKERS to host:port")
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("smelt"),
		kgo.DialTimeout(dialTimeout),
	}
	if log != nil {
		opts = append(opts, kgo.WithLogger(clientLog{log}))
	}
	if c.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(c.TLS))
	}
	switch c.SASL.Mechanism {
	case "":
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: c.SASL.User, Pass: c.SASL.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.SASL.User, Pass: c.SASL.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.SASL.User, Pass: c.SASL.Password}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("SASL mechanism %q is not known: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", c.SASL.Mechanism)
	}
	return opts, nil
}

// explain turns what the client says into what a person can act upon, marked as
// the source's trouble.
func (c Cluster) explain(topic string, err error) error {
	if err == nil {
		return nil
	}
	return smelt.Mark(smelt.ErrSource, c.describe(topic, err))
}

func (c Cluster) describe(topic string, err error) error {
	at := strings.Join(c.Brokers, ",")
	if fault := trust.Fault(err); fault != "" {
		return &said{fmt.Sprintf("kafka on %s: %s; see SMELT_KAFKA_TLS, SMELT_KAFKA_CERT and SMELT_KAFKA_KEY", at, fault), err}
	}
	switch {
	case strings.Contains(err.Error(), tlsAlert):
		return &said{fmt.Sprintf("kafka on %s: it wants TLS: set SMELT_KAFKA_TLS=true", at), err}
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("kafka on %s refuses user %q: wrong user or password: %w", at, c.SASL.User, err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("kafka on %s does not take SASL mechanism %q: %w", at, c.SASL.Mechanism, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return &said{fmt.Sprintf("topic %s does not exist on %s", topic, at), err}
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("%s may not use topic %s on %s: grant it: %w", c.who(), topic, at, err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("%s may not use the consumer group on %s: grant it: %w", c.who(), at, err)
	default:
		return fmt.Errorf("kafka on %s: %w", at, err)
	}
}

// who says whom the brokers take smelt for: their ACLs name it so, but for rules of theirs.
func (c Cluster) who() string {
	if c.SASL.Mechanism != "" {
		return fmt.Sprintf("user %q", c.SASL.User)
	}
	if c.TLS == nil || c.TLS.GetClientCertificate == nil {
		return "a client that does not log in (ANONYMOUS)"
	}
	var leaf *x509.Certificate
	shown, err := c.TLS.GetClientCertificate(new(tls.CertificateRequestInfo))
	if err == nil && len(shown.Certificate) > 0 {
		leaf, err = x509.ParseCertificate(shown.Certificate[0])
	}
	if err != nil || leaf == nil { // the file has been changed since it was shown
		return "the client certificate's user"
	}
	return fmt.Sprintf("user %q (of the client certificate)", leaf.Subject)
}

// tlsAlert is what the client says of a broker that answered a plain greeting with
// TLS.
const tlsAlert = "appear to be a tls alert record"

// said is an error in words that say all there is to say of its cause.
type said struct {
	words string
	cause error
}

func (s *said) Error() string { return s.words }
func (s *said) Unwrap() error { return s.cause }

// clientLog passes on what the client has to say of its connections. It is for
// looking closer: what stops the line comes as an error too.
type clientLog struct{ log *slog.Logger }

// Level is the least that the client is to log.
func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log logs one warning or error of the client.
func (l clientLog) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	l.log.Debug("kafka client", append([]any{"event", msg}, keyvals...)...)
}
