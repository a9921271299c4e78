package shell

import (
	"context"
	"strings"

	"smelt/internal/duck"
)

// maxSuggestions bounds what a press of the tab key offers.
const maxSuggestions = 40

var dotCommands = []string{".help", ".quit", ".schema ", ".tables", ".timer "}

// completer completes what is typed, by DuckDB's own suggestions.
type completer struct {
	ctx     context.Context
	session *session
}

// Do gives what may follow the line up to pos; length is how much of the line
// the suggestions repeat.
func (c completer) Do(line []rune, pos int) (next [][]rune, length int) {
	typed := string(line[:pos])
	if c.session.typed.Len() == 0 && strings.HasPrefix(typed, ".") {
		for _, command := range dotCommands {
			if rest, ok := strings.CutPrefix(command, typed); ok {
				next = append(next, []rune(rest))
			}
		}
		return next, pos
	}
	text := c.session.typed.String() + typed
	found, err := c.session.shell.console.Strings(c.ctx, "SELECT suggestion_start || ' ' || suggestion FROM sql_auto_complete("+duck.Literal(text)+")")
	if err != nil {
		return nil, 0
	}
	for _, f := range found {
		start, suggestion, _ := strings.Cut(f, " ")
		word := text[clamp(start, len(text)):]
		if len(suggestion) <= len(word) || !strings.EqualFold(suggestion[:len(word)], word) || len(next) == maxSuggestions {
			continue
		}
		rest := suggestion[len(word):]
		if word != "" && word == strings.ToLower(word) && suggestion == strings.ToUpper(suggestion) {
			rest = strings.ToLower(rest)
		}
		next, length = append(next, []rune(rest)), len([]rune(word))
	}
	return next, length
}

// clamp reads an offset, which at most is the end.
func clamp(number string, end int) int {
	n := 0
	for _, c := range number {
		n = n*10 + int(c-'0')
	}
	return min(n, end)
}
