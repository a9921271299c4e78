package store

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxKey  = 1024    // bytes: S3's bound on a key
	maxMeta = 2 << 10 // bytes: S3's bound on an object's user metadata, names and values
)

var errKey = errors.New("a key is 1 to 1024 bytes of UTF-8")

// checkKey refuses what some S3 would refuse, so that every store does.
func checkKey(key string) error {
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return errKey
	}
	return nil
}

// checkMeta refuses metadata that would not come back as it went: HTTP trims
// spaces around a header's value and folds the case of its name.
func checkMeta(meta map[string]string) error {
	size := 0
	for name, value := range meta {
		size += len(name) + len(value)
		if name == "" || strings.ContainsFunc(name, notInName) {
			return fmt.Errorf("metadata name %q: only a-z, 0-9 and - are allowed", name)
		}
		if strings.ContainsFunc(value, notPrintable) || strings.TrimSpace(value) != value {
			return fmt.Errorf("metadata %s: %q is not printable ASCII without spaces around it", name, value)
		}
	}
	if size > maxMeta {
		return fmt.Errorf("metadata of %d bytes: at most %d are allowed", size, maxMeta)
	}
	return nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }
