package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is the release; CHANGELOG.md tells what is in it.
const version = "0.1.0"

// versionCmd prints the version.
type versionCmd struct{}

// Run prints smelt's version and what it was built with.
func (versionCmd) Run(io *streams) error {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				revision = " (" + s.Value[:12] + ")"
			}
		}
	}
	_, err := fmt.Fprintf(io.Out, "smelt %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
