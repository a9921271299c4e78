package main

import (
	"os"
	"strings"
)

// readSettings reads a file of settings that the stack has written, as NAME=value.
func readSettings(path string) (settings []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "SMELT_KAFKA_TRIM=") { // the topics are to keep everything
			settings = append(settings, line)
		}
	}
	return settings, nil
}

// rewired are settings with replaced addresses: pairs of old and new.
func rewired(settings []string, pairs ...string) (out []string) {
	replace := strings.NewReplacer(pairs...)
	for _, s := range settings {
		out = append(out, replace.Replace(s))
	}
	return out
}
