package telemetry

import "net/http"

// Readyz answers a probe.
func (m *Metrics) Readyz(w http.ResponseWriter, r *http.Request) { m.readyz(w, r) }

// IsLocal says whether a server answers to a Host header without a token.
func (c Config) IsLocal(host string) bool { return c.isLocal(host) }
