package main

import (
	"context"
	"fmt"
	"strings"
)

// locateCmd writes a row of the demo's reference table: so the tour needs no
// client of PostgreSQL. It is hidden from the help.
type locateCmd struct {
	Sensor  string `arg:""`
	City    string `arg:""`
	Country string `arg:""`
}

// Run prints the statement that it runs.
func (c *locateCmd) Run(ctx context.Context, s *settings, io *streams) error {
	db, err := s.openDatabase(ctx, false)
	if err != nil {
		return err
	}
	defer db.Close()
	text := func(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }
	statement := fmt.Sprintf(`INSERT INTO public.locations (sensor_id, city, country) VALUES (%s, %s, %s)
ON CONFLICT (sensor_id) DO UPDATE SET city = EXCLUDED.city, country = EXCLUDED.country;`, text(c.Sensor), text(c.City), text(c.Country))
	fmt.Fprintln(io.Out, statement)
	return db.Exec(ctx, statement)
}
