package smelt

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Fault is one thing that is wrong in a file of a pipeline.
type Fault struct {
	File      string // its path, with slashes, as the fs.FS that was read names it
	Line, Col int    // from 1, Col in characters; 0 when the fault has no place
	Message   string // what is wrong and, where it is known, what to do
}

// Place is a place in a file: a line and a column, from 1.
type Place struct{ Line, Col int }

// Fault makes a fault at the place of a key of pipeline.yml, given as the keys
// (and numbers from 0) that lead to it: "silver", "partition", "0". Where that
// has no place, it is at the nearest key above.
func (p *Pipeline) Fault(message string, keys ...string) Fault {
	f := Fault{File: path.Join(p.Dir, DeclarationFile), Message: message}
	for n := len(keys); n > 0; n-- {
		if at, ok := p.Places[strings.Join(keys[:n], "\x00")]; ok {
			f.Line, f.Col = at.Line, at.Col
			break
		}
	}
	return f
}

// DeclarationFile is the file of a pipeline's folder that declares it.
const DeclarationFile = "pipeline.yml"

// String is the fault as compilers print theirs: file:line:col: message.
func (f Fault) String() string {
	switch {
	case f.Line == 0:
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	case f.Col == 0:
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Col, f.Message)
}

// Faults is everything that is wrong with some pipelines. As an error it prints
// a line a fault; errors.As finds it in what pipeline.Read returns.
type Faults []Fault

// Error prints a line a fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns the faults as an error marked [ErrPipeline], sorted by place and each once; nil without faults.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	sorted := slices.Clone(fs)
	slices.SortStableFunc(sorted, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Message, b.Message))
	})
	return Mark(ErrPipeline, slices.Compact(sorted))
}

// Under returns the faults with dir put before each file's path, so that a
// person can open what they name.
func (fs Faults) Under(dir string) Faults {
	moved := slices.Clone(fs)
	for i := range moved {
		moved[i].File = path.Join(dir, moved[i].File)
	}
	return moved
}

// DidYouMean returns the tail of a message about an unknown word: `: did you mean "partition"?` if a known word
// is close, else the list of known words, else "".
func DidYouMean(word string, known ...string) string {
	best, least := "", len(word)/3+2
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf(": did you mean %q?", best)
	case len(known) == 0 || len(known) > maxListed:
		return ""
	}
	return ": known are " + strings.Join(known, ", ")
}

const (
	maxListed  = 20 // names in a message; more do not help
	maxCompare = 64 // bytes of a word that is looked for among others, to bound the time
)

// distance counts the letters to insert, delete, replace or swap with their
// neighbour to make a into b.
func distance(a, b string) int {
	if len(a) > maxCompare || len(b) > maxCompare {
		return maxCompare
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			replace := row[j]
			if a[i] != b[j] {
				replace++
			}
			next[j+1] = min(replace, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
