package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"smelt"
)

const (
	silverFile = "silver.sql"
	testFile   = "test.txtar"

	maxDeclaration = 1 << 20 // bytes of pipeline.yml
	maxSQL         = 1 << 20 // bytes of a SELECT
	maxTest        = 8 << 20 // bytes of test.txtar
)

// ReadAll reads every folder of fsys as a pipeline. It ignores files beside them and names that start with a dot. Its error
// is marked [smelt.ErrPipeline] and holds the [smelt.Faults] of all folders. It also returns the pipelines without faults,
// so that a check can continue with them.
func ReadAll(fsys fs.FS) ([]*smelt.Pipeline, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, smelt.Mark(smelt.ErrPipeline, fmt.Errorf("read the folder of pipelines: %w", err))
	}
	var pipelines []*smelt.Pipeline
	var faults smelt.Faults
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !isFolder(fsys, e.Name()) {
			continue
		}
		p, err := Read(fsys, e.Name())
		if err != nil {
			var own smelt.Faults
			errors.As(err, &own)
			faults = append(faults, own...)
			continue
		}
		pipelines = append(pipelines, p)
	}
	faults = append(faults, tableClashes(pipelines)...)
	if len(pipelines)+len(faults) == 0 {
		faults = smelt.Faults{{File: ".", Message: "no pipelines here: each is a folder that has a " + smelt.DeclarationFile}}
	}
	return pipelines, faults.Err()
}

// isFolder follows symbolic links, which a mounted ConfigMap is made of.
func isFolder(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

// tableClashes finds two models whose tables have one name: a's b_c and a_b's c.
func tableClashes(pipelines []*smelt.Pipeline) smelt.Faults {
	var faults smelt.Faults
	owner := map[string]*smelt.Pipeline{}
	for _, p := range pipelines {
		for _, m := range p.Gold {
			table := p.Name + "_" + m.Name
			if other, taken := owner[table]; taken {
				faults = append(faults, p.Fault(fmt.Sprintf("the table gold.%s belongs to the pipeline %q already: rename the model %q",
					table, other.Name, m.Name), "gold", m.Name))
			}
			owner[table] = p
		}
	}
	return faults
}

// Read reads the pipeline in the folder dir of fsys and checks everything that can be checked without running its SQL. Its error is
// marked [smelt.ErrPipeline] and holds every fault, as [smelt.Faults].
func Read(fsys fs.FS, dir string) (*smelt.Pipeline, error) {
	f := &folder{fsys: fsys, dir: dir}
	p := &smelt.Pipeline{Name: path.Base(dir), Dir: dir}
	if fault := tableNameFault(p.Name); fault != "" {
		f.fault(smelt.DeclarationFile, 0, 0, "the folder's name, %q, is the pipeline's: %s", p.Name, fault)
	}
	data, ok := f.read(smelt.DeclarationFile, maxDeclaration)
	if !ok {
		return nil, f.faults.Err()
	}
	doc, root, ok := parseYAML(path.Join(dir, smelt.DeclarationFile), data)
	if ok {
		root.pipeline(p)
		p.Doc = headComment(data)
		p.Places = doc.places
	}
	f.faults = append(f.faults, doc.faults...)
	p.Silver.SQL = f.sql(silverFile)
	for i := range p.Gold {
		p.Gold[i].SQL = f.sql(p.Gold[i].Name + ".sql")
	}
	f.test(p)
	if ok {
		f.strangers(p)
	}
	if err := f.faults.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// folder is the folder of a pipeline that is being read.
type folder struct {
	fsys   fs.FS
	dir    string
	faults smelt.Faults
}

func (f *folder) fault(name string, line, col int, format string, args ...any) {
	f.faults = append(f.faults, smelt.Fault{File: path.Join(f.dir, name), Line: line, Col: col, Message: fmt.Sprintf(format, args...)})
}

// read reads a whole file of UTF-8 text, a byte order mark left out.
func (f *folder) read(name string, max int64) ([]byte, bool) {
	file, err := f.fsys.Open(path.Join(f.dir, name))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			f.fault(name, 0, 0, "the file does not exist")
		} else {
			f.fault(name, 0, 0, "%v", err)
		}
		return nil, false
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, max+1))
	switch {
	case err != nil:
		f.fault(name, 0, 0, "%v", err)
		return nil, false
	case int64(len(data)) > max:
		f.fault(name, 0, 0, "the file is larger than %d bytes", max)
		return nil, false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if at := oddByte(data); at >= 0 {
		before := data[:at]
		line := before[bytes.LastIndexByte(before, '\n')+1:]
		f.fault(name, bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(line)+1, "not UTF-8 text, at the byte 0x%02x", data[at])
		return nil, false
	}
	return data, true
}

// oddByte finds the first byte that is not part of UTF-8 text, or is NUL.
func oddByte(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func (f *folder) sql(name string) string {
	data, ok := f.read(name, maxSQL)
	if ok && len(bytes.TrimSpace(data)) == 0 {
		f.fault(name, 0, 0, "the file is empty: it must be a SELECT")
	}
	return string(data)
}

// test reads test.txtar, if it exists, and checks that it matches p.
func (f *folder) test(p *smelt.Pipeline) {
	if _, err := fs.Stat(f.fsys, path.Join(f.dir, testFile)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	data, ok := f.read(testFile, maxTest)
	if !ok {
		return
	}
	p.Test = data
	t, err := ReadTest(data)
	if err != nil {
		var own smelt.Faults
		errors.As(err, &own)
		f.faults = append(f.faults, own.Under(f.dir)...)
		return
	}
	for _, ref := range t.References {
		at := slices.IndexFunc(p.References, func(r smelt.Reference) bool { return r.Name == ref.Name })
		if at < 0 {
			f.fault(testFile, ref.line, 0, "pipeline.yml declares no reference %q", ref.Name)
		} else if key := p.References[at].Key; !slices.Contains(ref.Columns, key) {
			f.fault(testFile, ref.line, 0, "the reference %q lacks its key, the column %q", ref.Name, key)
		}
	}
	for _, gold := range t.Gold {
		if !slices.ContainsFunc(p.Gold, func(m smelt.Model) bool { return m.Name == gold.Name }) {
			f.fault(testFile, gold.line, 0, "pipeline.yml declares no gold model %q", gold.Name)
		}
	}
}

// strangers finds SQL that nothing would run.
func (f *folder) strangers(p *smelt.Pipeline) {
	entries, err := fs.ReadDir(f.fsys, f.dir)
	if err != nil {
		f.fault("", 0, 0, "%v", err)
	}
	for _, e := range entries {
		name, isSQL := strings.CutSuffix(e.Name(), ".sql")
		if !isSQL || e.Name() == silverFile || strings.HasPrefix(name, ".") ||
			slices.ContainsFunc(p.Gold, func(m smelt.Model) bool { return m.Name == name }) {
			continue
		}
		f.fault(e.Name(), 0, 0, "no model of this name, %s, stands under gold: in %s", strconv.Quote(name), smelt.DeclarationFile)
	}
}

// headComment is the comment that a file begins with, without its marks.
func headComment(data []byte) string {
	var lines []string
	for line := range strings.Lines(string(data)) {
		text, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		lines = append(lines, strings.TrimSpace(text))
	}
	return strings.Join(lines, "\n")
}
