package smelt

import (
	"cmp"
	"os"
	"strconv"
)

// Instance names this process among those that work on one lake, for people: its
// host and its process id, "build7-4711". Kafka knows it under this name, and
// PostgreSQL; snapshots have it.
func Instance() string {
	host, _ := os.Hostname() // one without a name is told by its process id
	return cmp.Or(host, "smelt") + "-" + strconv.Itoa(os.Getpid())
}
