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

// retiredMark ends the position of an object that retirement has made.
const retiredMark = "-retired"

// Name is an object's name, taken apart; positions have 20 digits:
//
//	bronze/<pipeline>/<partition>/<start>.ndjson.zst                a writer's
//	bronze/<pipeline>/<partition>/<start>-<end>.ndjson.zst          a merger's
//	bronze/<pipeline>/<partition>/<start>-<end>-retired.ndjson.zst  what retirement has left; start is 0
type Name struct {
	Pipeline  string
	Partition int32
	Start     int64 // the object's position: where the one before it ended
	End       int64 // where the chain goes on after a merged object; 0 for a writer's, whose metadata tells
	Retired   bool  // the object at the chain's beginning from which retention removed records
	Codec     Codec
}

// Merged says whether the object holds what other objects held.
func (n Name) Merged() bool { return n.End > 0 }

// Key returns the name as a key of the store.
func (n Name) Key() string {
	return PartitionPrefix(n.Pipeline, n.Partition) + n.positions() + n.Codec.suffix()
}

func (n Name) positions() string {
	positions := fmt.Sprintf("%0*d", positionDigits, n.Start)
	if n.Merged() {
		positions += fmt.Sprintf("-%0*d", positionDigits, n.End)
	}
	if n.Retired {
		positions += retiredMark
	}
	return positions
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
	positions, suffix, _ := strings.Cut(parts[2], ".")
	if n.Codec, ok = codecOf("." + suffix); !ok {
		return bad("the ending")
	}
	start, end, merged := strings.Cut(positions, "-")
	if n.Start, ok = parsePosition(start); !ok {
		return bad("the position")
	}
	if !merged {
		return n, nil
	}
	end, n.Retired = strings.CutSuffix(end, retiredMark)
	if n.End, ok = parsePosition(end); !ok || n.End <= n.Start || n.Retired && n.Start > 0 {
		return bad("the end")
	}
	return n, nil
}

func parsePosition(digits string) (int64, bool) {
	position, err := strconv.ParseUint(digits, 10, 63)
	return int64(position), err == nil && len(digits) == positionDigits
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
