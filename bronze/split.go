package bronze

import (
	"fmt"
	"os"
)

// Split reads a downloaded object and calls yield with the path of one file
// after the other that has some of its lines, uncompressed: as many as fit into
// partBytes, and at least one. longest is its longest line in bytes. The file is
// removed when yield returns.
func Split(path string, partBytes int, yield func(part string, longest int64) error) error {
	var lines []byte
	longest, count := 0, 0
	flush := func() error {
		part := fmt.Sprintf("%s.%d.ndjson", path, count)
		if err := os.WriteFile(part, lines, 0o600); err != nil {
			return err
		}
		defer os.Remove(part)
		err := yield(part, int64(longest))
		lines, longest, count = lines[:0], 0, count+1
		return err
	}
	err := eachLine(path, func(line []byte) error {
		if len(lines) > 0 && len(lines)+len(line) >= partBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		lines = append(append(lines, line...), '\n')
		longest = max(longest, len(line)+1)
		return nil
	})
	if err != nil || len(lines) == 0 {
		return err
	}
	return flush()
}
