package smelt

import (
	"embed"
	"io/fs"
)

//go:embed sql
var shipped embed.FS

// Shipped returns the pipelines that come with the binary, a folder each, for
// pipeline.ReadAll.
func Shipped() fs.FS {
	sub, err := fs.Sub(shipped, "sql")
	if err != nil {
		panic(err) // only when "sql" is no valid path
	}
	return sub
}
