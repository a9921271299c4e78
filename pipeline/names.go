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

// duration reads 10m: a number and s, m, h or d. It is 0 when that is at fault.
func (it item) duration(least, most time.Duration) time.Duration {
	text, ok := it.text()
	if !ok {
		return 0
	}
	m := durationText.FindStringSubmatch(text)
	if m == nil {
		it.fault("%q is no duration: write a number and s, m, h or d, such as 10m", text)
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

// columnNameFault says why a text can be no column of events, or nothing. JSON
// has odd names, which must match exactly; what would break a quoted name is out.
func columnNameFault(name string) string {
	switch {
	case name == "" || strings.TrimSpace(name) != name:
		return "a name neither is empty nor begins or ends with a space"
	case len(name) > maxColumnName:
		return fmt.Sprintf("a name has %d bytes at most", maxColumnName)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`"'\`, r) }):
		return `a name holds neither quotes, nor \, nor what cannot be printed`
	}
	return ""
}

// tableNameFault says why a text can be no part of a table's name, or nothing.
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
