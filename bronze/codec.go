package bronze

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"smelt"
)

// Kind says how a line holds its record's value. It is the name of the line's
// member that does so.
type Kind string

const (
	KindValue     Kind = "value"      // JSON, embedded with its bytes untouched
	KindRaw       Kind = "raw"        // any other UTF-8, as a JSON string
	KindBase64    Kind = "raw_base64" // any other bytes
	KindTombstone Kind = "tombstone"  // the record has no value
	KindOversize  Kind = "oversize"   // the record is over the bound: the value's size and digest
)

const (
	// keyMax is the longest key, in bytes, that a line keeps of a record over
	// the bound: enough for any key that a person chose.
	keyMax = 1024
	// headerCost is what a header counts towards the bound beside its bytes, so
	// that many empty headers cannot make a long line of a small record.
	headerCost = 16
	// escapeMax is how many times longer than its bytes a string can get in a
	// line: a control character becomes \u001f.
	escapeMax = 6
	// envelopeMax is more than the bytes of a line that hold no key, header or value.
	envelopeMax = 512
)

// MaxLine returns a length in bytes that no line exceeds when the record bound
// is max: the maximum_object_size to read it with.
func MaxLine(max int) int { return escapeMax*(max+keyMax) + envelopeMax }

// AppendLine appends the record as one line of JSON, with its line feed:
//
//	{"partition":0,"offset":17,"timestamp":1789221600000,"key":"hel-001","headers":{…},"value":<the event>}
//
// Absent parts are omitted. A key that is not UTF-8 is key_base64. The last member holds
// the value, by [Kind]. A value that every JSON reader accepts is embedded byte for byte;
// only line breaks between tokens become spaces. For a record of more than max bytes the
// line has the size and the SHA-256 of the value, and the key if it is short.
//
// The first occurrence of the bytes ,"value": in a line always starts the event, which
// ends at the line's closing brace. A header of that name has its first letter escaped,
// and inside a JSON string a quote is escaped.
func AppendLine(dst []byte, r *smelt.Record, max int) []byte {
	dst = append(dst, `{"partition":`...)
	dst = strconv.AppendInt(dst, int64(r.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, r.Offset, 10)
	if r.Timestamp != smelt.NoTimestamp {
		dst = append(dst, `,"timestamp":`...)
		dst = strconv.AppendInt(dst, r.Timestamp, 10)
	}
	over := size(r) > max
	if r.Key != nil && !(over && len(r.Key) > keyMax) {
		dst = append(dst, ',')
		dst = appendBytes(dst, "key", r.Key)
	}
	if over {
		return appendOversize(dst, r.Value)
	}
	if len(r.Headers) > 0 {
		dst = appendHeaders(dst, r.Headers)
	}
	return appendValue(dst, r.Value)
}

// size is the size that the bound of a record is compared with.
func size(r *smelt.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Name) + len(r.Headers[i].Value) + headerCost
	}
	return n
}

func appendValue(dst, value []byte) []byte {
	if value == nil {
		return append(dst, `,"tombstone":true}`+"\n"...)
	}
	ok, breaks := embeddable(value)
	if !ok {
		dst = append(dst, ',')
		dst = appendBytes(dst, "raw", value)
		return append(dst, "}\n"...)
	}
	dst = append(dst, `,"value":`...)
	start := len(dst)
	dst = append(dst, value...)
	if breaks {
		unbreak(dst[start:])
	}
	return append(dst, "}\n"...)
}

// unbreak makes spaces of line breaks. In valid JSON they stand only between
// tokens, where a space means the same.
func unbreak(json []byte) {
	for i, c := range json {
		if c == '\n' || c == '\r' {
			json[i] = ' '
		}
	}
}

func appendOversize(dst, value []byte) []byte {
	sum := sha256.Sum256(value)
	dst = append(dst, `,"oversize":{"size":`...)
	dst = strconv.AppendInt(dst, int64(len(value)), 10)
	dst = append(dst, `,"sha256":"`...)
	dst = hex.AppendEncode(dst, sum[:])
	return append(dst, `"}}`+"\n"...)
}

// appendBytes appends a member: "name":"text" of UTF-8, or "name_base64":"…".
func appendBytes(dst []byte, name string, b []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	if utf8.Valid(b) {
		dst = append(dst, `":`...)
		return appendString(dst, b)
	}
	dst = append(dst, `_base64":`...)
	return appendBase64(dst, b)
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// appendString appends valid UTF-8 as a JSON string. It escapes what JSON says
// must be, and nothing else.
func appendString(dst, s []byte) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for {
		n, _ := plain(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		switch c := s[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		s = s[n+1:]
	}
}
