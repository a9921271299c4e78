package smelt

import (
	"cmp"
	"os"
	"strconv"
)

// Instance is a readable name of this process: host and process id, "build7-4711". It is
// the client id in Kafka, the application name in PostgreSQL and the app-id in snapshots.
func Instance() string {
	host, _ := os.Hostname() // without a host name the default is used
	return cmp.Or(host, "smelt") + "-" + strconv.Itoa(os.Getpid())
}
