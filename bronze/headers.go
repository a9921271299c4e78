package bronze

import (
	"slices"
	"unicode/utf8"

	"smelt"
)

// pairwise is up to how many headers are compared pair by pair for a repeated
// name; more of them go through a map.
const pairwise = 16

// appendHeaders appends the member "headers": an object with each name's value. A value is a
// string, {"base64":"…"} if it is not UTF-8, or null if the header has none. A repeated
// name has an array. If a name is not UTF-8, all headers go into "headers_base64", an
// array of [name, value].
func appendHeaders(dst []byte, headers []smelt.Header) []byte {
	for i := range headers {
		if !utf8.ValidString(headers[i].Name) {
			return appendPairs(dst, headers)
		}
	}
	headers = group(headers)
	dst = append(dst, `,"headers":{`...)
	for i := 0; i < len(headers); {
		end := i + 1
		for end < len(headers) && headers[end].Name == headers[i].Name {
			end++
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHeaderName(dst, headers[i].Name)
		dst = append(dst, ':')
		dst = appendHeaderValues(dst, headers[i:end])
		i = end
	}
	return append(dst, '}')
}

// appendHeaderName keeps the bytes "value": for the event.
func appendHeaderName(dst []byte, name string) []byte {
	if name == "value" {
		return append(dst, `"\u0076alue"`...)
	}
	return appendString(dst, []byte(name))
}

func appendHeaderValues(dst []byte, same []smelt.Header) []byte {
	if len(same) == 1 {
		return appendHeaderValue(dst, same[0].Value)
	}
	dst = append(dst, '[')
	for i := range same {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHeaderValue(dst, same[i].Value)
	}
	return append(dst, ']')
}

func appendHeaderValue(dst, value []byte) []byte {
	switch {
	case value == nil:
		return append(dst, `null`...)
	case utf8.Valid(value):
		return appendString(dst, value)
	default:
		dst = append(dst, `{"base64":`...)
		dst = appendBase64(dst, value)
		return append(dst, '}')
	}
}

func appendPairs(dst []byte, headers []smelt.Header) []byte {
	dst = append(dst, `,"headers_base64":[`...)
	for i := range headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = appendBase64(dst, []byte(headers[i].Name))
		dst = append(dst, ',')
		if headers[i].Value == nil {
			dst = append(dst, `null`...)
		} else {
			dst = appendBase64(dst, headers[i].Value)
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// group returns the headers with those of one name side by side: the names in
// the order in which each came first, and the values of a name as received.
func group(headers []smelt.Header) []smelt.Header {
	if !repeats(headers) {
		return headers
	}
	rank := make(map[string]int, len(headers))
	for i := range headers {
		if _, ok := rank[headers[i].Name]; !ok {
			rank[headers[i].Name] = i
		}
	}
	grouped := slices.Clone(headers)
	slices.SortStableFunc(grouped, func(a, b smelt.Header) int { return rank[a.Name] - rank[b.Name] })
	return grouped
}

// repeats says whether a name may come twice.
func repeats(headers []smelt.Header) bool {
	if len(headers) > pairwise {
		return true
	}
	for i := range headers {
		for j := range i {
			if headers[i].Name == headers[j].Name {
				return true
			}
		}
	}
	return false
}
