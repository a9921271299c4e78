package stack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// errRefused is the error of a login that no waiting will mend.
var errRefused = errors.New("login refused")

const (
	protocol3     = 3 << 16 // PostgreSQL's protocol, version 3.0
	cannotConnect = "57P03" // the server is starting up
	maxReply      = 1 << 16 // bytes; far above any message of a login
	mechanism     = "SCRAM-SHA-256"
)

// The kinds of an authentication message.
const (
	authOK           = 0
	authSASL         = 10
	authSASLContinue = 11
	authSASLFinal    = 12
)

// login proves that a client with the password gets into the database: it goes
// through PostgreSQL's own handshake and hangs up.
func login(ctx context.Context, addr, password string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	session, first, err := scram.Auth{User: user, Pass: password}.AsSha256Mechanism().Authenticate(ctx, addr)
	if err != nil {
		return err
	}
	startup := binary.BigEndian.AppendUint32(nil, protocol3)
	startup = append(startup, "user\x00"+user+"\x00database\x00"+database+"\x00\x00"...)
	if err := send(conn, "", startup); err != nil {
		return err
	}
	for {
		kind, rest, err := receive(conn)
		if err != nil {
			return err
		}
		switch kind {
		case authOK:
			return nil
		case authSASL:
			reply := append([]byte(mechanism), 0)
			reply = binary.BigEndian.AppendUint32(reply, uint32(len(first)))
			err = send(conn, "p", append(reply, first...))
		case authSASLContinue, authSASLFinal:
			var reply []byte
			_, reply, err = session.Challenge(rest)
			if err == nil && kind == authSASLContinue {
				err = send(conn, "p", reply)
			}
		default:
			err = fmt.Errorf("%w: the server requests authentication of kind %d", errRefused, kind)
		}
		if err != nil {
			return err
		}
	}
}

// send writes a message: its type, if it has one, the length and the body.
func send(w io.Writer, kind string, body []byte) error {
	msg := binary.BigEndian.AppendUint32([]byte(kind), uint32(4+len(body)))
	_, err := w.Write(append(msg, body...))
	return err
}

// receive reads an authentication message: its kind and what follows. Anything
// else that a server may say at this point is an error.
func receive(r io.Reader) (kind uint32, rest []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 8 || size > maxReply {
		return 0, nil, fmt.Errorf("%w: not a PostgreSQL server", errRefused)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	switch head[0] {
	case 'R':
		return binary.BigEndian.Uint32(body), body[4:], nil
	case 'E':
		return 0, nil, serverError(string(body))
	}
	return 0, nil, fmt.Errorf("%w: not a PostgreSQL server", errRefused)
}

// serverError reads an error message, a list of fields each with a letter.
func serverError(body string) error {
	var code, message string
	for field := range strings.SplitSeq(body, "\x00") {
		switch {
		case strings.HasPrefix(field, "C"):
			code = field[1:]
		case strings.HasPrefix(field, "M"):
			message = field[1:]
		}
	}
	if code == cannotConnect {
		return errors.New(message)
	}
	return fmt.Errorf("%w: %s", errRefused, message)
}
