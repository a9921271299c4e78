package bronze

import (
	"fmt"
	"strconv"
	"strings"
)

// root is the folder of bronze in the lake.
const root = "bronze/"

// positionDigits are the digits of a position in a name: they hold any offset,
// and make the order of the names that of the positions.
const positionDigits = 20

// Name is an object's name, taken apart:
//
//	bronze/<pipeline>/<partition>/<start, 20 digits>.ndjson.zst
//
// A merged object is going to be <start>-<end>, so a name is read strictly.
type Name struct {
	Pipeline  string
	Partition int32
	Start     int64 // the object's position: where the one before it ended
	Codec     Codec
}

// Key returns the name as a key of the store.
func (n Name) Key() string {
	return n.position() + n.Codec.suffix()
}

// from sorts before the keys of every object that starts at n.Start or later,
// and after all others of the partition.
func (n Name) from() string { return n.position() }

// beyond sorts after the keys of every object that starts at n.Start, and before
// those that start later: its last byte comes after the "." and "-" of a key.
func (n Name) beyond() string { return n.position() + "/" }

func (n Name) position() string {
	return fmt.Sprintf("%s%0*d", PartitionPrefix(n.Pipeline, n.Partition), positionDigits, n.Start)
}

// Prefix begins the keys of all objects of a pipeline, and of no other's.
func Prefix(pipeline string) string { return root + pipeline + "/" }

// PartitionPrefix begins the keys of all objects of a partition.
func PartitionPrefix(pipeline string, partition int32) string {
	return Prefix(pipeline) + strconv.FormatInt(int64(partition), 10) + "/"
}

// ParseName reads a key that [Name.Key] made. Any other is an error that names it.
func ParseName(key string) (Name, error) {
	bad := func(why string) (Name, error) {
		return Name{}, fmt.Errorf("%q is not the name of a bronze object (%s): what else is in the lake's bronze folder has to go", key, why)
	}
	rest, ok := strings.CutPrefix(key, root)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return bad("want " + root + "<pipeline>/<partition>/<position>.ndjson.zst")
	}
	n := Name{Pipeline: parts[0]}
	if !validPipeline(n.Pipeline) {
		return bad("the pipeline's name")
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || partition < 0 || strconv.FormatInt(partition, 10) != parts[1] {
		return bad("the partition")
	}
	n.Partition = int32(partition)
	position, suffix, _ := strings.Cut(parts[2], ".")
	if n.Codec, ok = codecOf("." + suffix); !ok {
		return bad("the ending")
	}
	start, err := strconv.ParseUint(position, 10, 63)
	if err != nil || len(position) != positionDigits {
		return bad("the position")
	}
	n.Start = int64(start)
	return n, nil
}

func validPipeline(name string) bool {
	for _, c := range []byte(name) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && !(c >= '0' && c <= '9') && c != '_' {
			return false
		}
	}
	return name != ""
}
