package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// configCmd shows the settings.
type configCmd struct {
	JSON bool `name:"json" help:"As JSON."`
}

// setting is one setting in effect.
type setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Run prints each setting by its environment variable, with its value and where
// that came from. Secrets are hidden.
func (c *configCmd) Run(s *settings, io *streams, k *kong.Context) error {
	var all []setting
	for _, flag := range k.Model.Node.Flags {
		own, _ := names(flag.Tag.Get("setting"))
		if own == "" {
			continue
		}
		v := setting{own, shown(flag), s.originOf(flag)}
		if flag.Name == "postgres-dsn" && s.PostgresDSN == "" {
			v.Origin = cmp.Or(fallbackDatabase(), v.Origin)
		}
		all = append(all, v)
	}
	if c.JSON {
		encoder := json.NewEncoder(io.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	table := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', 0)
	for _, v := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\n", v.Name, v.Value, v.Origin)
	}
	return table.Flush()
}

// originOf says where a flag's value came from.
func (s *settings) originOf(flag *kong.Flag) string {
	switch o, ok := s.origins[flag.Name]; {
	case ok:
		return o.Name
	case s.explicit[flag.Name]:
		return "--" + flag.Name
	default:
		return "default"
	}
}

// hidden replaces a secret.
const hidden = "********"

// shown is a flag's value, without its secrets.
func shown(flag *kong.Flag) string {
	value := text(flag)
	switch {
	case value == "":
		return ""
	case flag.Tag.Has("secret") && !strings.Contains(value, "://"):
		return hidden // a password, or a DSN of key=value pairs
	case !flag.Tag.Has("secret") && !strings.Contains(value, "@"):
		return value
	case strings.Contains(value, "://"):
		return withoutPasswords(value)
	}
	return value
}

// withoutPasswords is a URL whose passwords are hidden; all of it is where it is
// not clear what they are.
func withoutPasswords(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User == nil && strings.Contains(text, "@") {
		return hidden
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, hidden)
		}
	}
	if u.RawQuery != "" {
		u.RawQuery = strings.ReplaceAll(query.Encode(), url.QueryEscape(hidden), hidden)
	}
	if u.User == nil {
		return u.String()
	}
	user := u.User.Username()
	u.User = nil
	return strings.Replace(u.String(), "://", "://"+user+":"+hidden+"@", 1)
}
