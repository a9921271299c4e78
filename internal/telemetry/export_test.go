package telemetry

import "net/http"

// Readyz answers a probe.
func (m *Metrics) Readyz(w http.ResponseWriter, r *http.Request) { m.readyz(w, r) }
