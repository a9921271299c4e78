package pipeline

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	maxColumnName = 128 // bytes, well below every engine's bound
	maxTableName  = 64  // bytes, so that gold.<pipeline>_<model> fits every catalog
	maxPostgres   = 63  // bytes of a name; Postgres cuts what is longer
	maxKafkaTopic = 249 // characters, Kafka's own bound

	day = 24 * time.Hour
)

// What names may look like.
var (
	tableName    = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	plainName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	topicName    = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
	durationText = regexp.MustCompile(`^([0-9]{1,6})(s|m|h|d)$`)
)

// duration reads 10m: a number and s, m, h or d. It is 0 if that is invalid.
func (it item) duration(least, most time.Duration) time.Duration {
	text, ok := it.text()
	if !ok {
		return 0
	}
	m := durationText.FindStringSubmatch(text)
	if m == nil {
		it.fault("%q is not a duration: write a number and s, m, h or d, such as 10m", text)
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // at most six digits
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": day}[m[2]]
	d := time.Duration(n) * unit
	if d < least || d > most {
		it.fault("%s must be %s at least and %s at most", it.name(), shortDuration(least), shortDuration(most))
		return 0
	}
	return d
}

// columnNameFault returns why a text cannot be a column of events, or "". JSON has odd names, which must match exactly. Names that would
// break quoting are not allowed.
func columnNameFault(name string) string {
	switch {
	case name == "" || strings.TrimSpace(name) != name:
		return "a name is not empty, and does not begin or end with a space"
	case len(name) > maxColumnName:
		return fmt.Sprintf("a name has %d bytes at most", maxColumnName)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`"'\`, r) }):
		return `a name holds neither quotes, nor \, nor what cannot be printed`
	}
	return ""
}

// tableNameFault returns why a text cannot be part of a table's name, or "".
func tableNameFault(name string) string {
	switch {
	case !tableName.MatchString(name):
		return "begin with a lower-case letter, then lower-case letters, digits and _"
	case len(name) > maxTableName:
		return fmt.Sprintf("%d characters at most", maxTableName)
	}
	return ""
}

func postgresName(name string) bool {
	return plainName.MatchString(name) && len(name) <= maxPostgres
}
