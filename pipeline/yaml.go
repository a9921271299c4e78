package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"smelt"
)

const (
	maxYAMLDepth = 16   // levels of nesting; a pipeline has five
	maxKeys      = 1000 // of a mapping; an event with more columns is several events
	maxItems     = 32   // items of a list, which names columns; no table needs more
	maxFaults    = 100  // of one file; a person reads the first few
	nullTag      = "!!null"
	mergeTag     = "!!merge"
)

// document is a YAML file that is being read. It collects faults, so that all are reported at once.
type document struct {
	file   string
	lines  []string
	faults smelt.Faults
	places map[string]smelt.Place // of every value, by its path
}

// item is a value in a document.
type item struct {
	doc  *document
	node *yaml.Node
	path []string // the keys, and numbers from 0, that lead to it
}

// entry is a key of a mapping and its value.
type entry struct {
	name string
	key  item
	item // the value
}

// parseYAML reads the one document of a file. ok is false if the file cannot be read at all.
func parseYAML(file string, data []byte) (doc *document, root item, ok bool) {
	doc = &document{file: file, lines: strings.Split(string(data), "\n"), places: map[string]smelt.Place{}}
	loader, err := yaml.NewLoader(bytes.NewReader(data),
		yaml.WithV4Defaults(), yaml.WithUniqueKeys(false),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxYAMLDepth))))
	if err != nil {
		doc.syntax(err)
		return doc, item{}, false
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF):
		doc.add(0, 0, "the file is empty")
		return doc, item{}, false
	case err != nil:
		doc.syntax(err)
		return doc, item{}, false
	}
	switch err := loader.Load(&second); {
	case err == nil:
		doc.add(second.Line, 1, "a second document: keep one")
		return doc, item{}, false
	case !errors.Is(err, io.EOF):
		doc.syntax(err)
		return doc, item{}, false
	}
	if len(first.Content) != 1 {
		doc.add(0, 0, "the file is empty")
		return doc, item{}, false
	}
	doc.strict(first.Content[0])
	return doc, item{doc: doc, node: first.Content[0]}, true
}

func (d *document) add(line, col int, format string, args ...any) {
	if len(d.faults) < maxFaults {
		d.faults = append(d.faults, smelt.Fault{File: d.file, Line: line, Col: col, Message: fmt.Sprintf(format, args...)})
	}
}

// syntax adds the fault of a file that is not YAML.
func (d *document) syntax(err error) {
	var many *yaml.LoadErrors
	var load *yaml.LoadError
	switch {
	case errors.As(err, &many) && len(many.Errors) > 0:
		load = many.Errors[0]
	case !errors.As(err, &load):
		d.add(0, 0, "not YAML: %v", err)
		return
	}
	at := smelt.Place{Line: load.Mark.Line, Col: load.Mark.Column}
	if at.Line > 0 && at.Line <= len(d.lines) && strings.HasPrefix(strings.TrimLeft(d.lines[at.Line-1], " "), "\t") {
		d.add(at.Line, at.Col, "a tab: indent with spaces")
		return
	}
	d.add(at.Line, at.Col, "not YAML: %s", strings.TrimSpace(load.ContextMsg+" "+load.Message))
}

// strict refuses what YAML offers and a declaration has no need of: anchors,
// aliases, merge keys, tags, keys that are not words, keys given twice.
func (d *document) strict(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		d.add(n.Line, n.Column, "an alias, *%s: write the value out", n.Value)
		return
	case n.Anchor != "":
		d.add(n.Line, n.Column, "an anchor, &%s: write the value out where it is needed", n.Anchor)
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.add(n.Line, n.Column, "a tag, %s: leave it out", n.Tag)
	}
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			d.strict(c)
		}
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		d.strict(n.Content[i+1])
		switch line, twice := first[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Tag == nullTag:
			d.add(key.Line, key.Column, "a key must be a word")
		case key.Tag == mergeTag:
			d.add(key.Line, key.Column, "a merge key, <<: write the keys out")
		case key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			d.strict(key)
		case twice:
			d.add(key.Line, key.Column, "key %q is given twice, first on line %d", key.Value, line)
		default:
			first[key.Value] = key.Line
		}
	}
}

// fault adds a fault at the item.
func (it item) fault(format string, args ...any) {
	it.doc.add(it.node.Line, it.node.Column, format, args...)
}

// faultAt adds a fault at the byte offset of the item's text, as far as the
// text stands in the file as it reads.
func (it item) faultAt(offset int, format string, args ...any) {
	n, col := it.node, it.node.Column
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		col++
	}
	if n.Line < 1 || n.Line > len(it.doc.lines) || !strings.HasPrefix(skipRunes(it.doc.lines[n.Line-1], col-1), n.Value) {
		it.fault(format, args...)
		return
	}
	it.doc.add(n.Line, col+utf8.RuneCountInString(n.Value[:min(offset, len(n.Value))]), format, args...)
}

func skipRunes(s string, n int) string {
	for ; n > 0 && s != ""; n-- {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return s
}

// name is the item's path as a message shows it.
func (it item) name() string {
	if len(it.path) == 0 {
		return "the file"
	}
	return strconv.Quote(strings.Join(it.path, "."))
}

func (it item) child(name string, node *yaml.Node) item {
	path := append(it.path[:len(it.path):len(it.path)], name)
	it.doc.places[strings.Join(path, "\x00")] = smelt.Place{Line: node.Line, Col: node.Column}
	return item{it.doc, node, path}
}

// is says whether the item has the kind, and adds a fault if it does not. It does not repeat faults of strict.
func (it item) is(kind yaml.Kind, what string) bool {
	switch {
	case it.node.Kind == kind && it.node.Tag != nullTag:
		return true
	case it.node.Kind == yaml.AliasNode:
	case it.node.Tag == nullTag:
		it.fault("%s is empty: it must be %s", it.name(), what)
	default:
		it.fault("%s must be %s", it.name(), what)
	}
	return false
}

// text is the item's text, as written, whatever YAML would make of it.
func (it item) text() (string, bool) {
	if !it.is(yaml.ScalarNode, "a text") {
		return "", false
	}
	if strings.TrimSpace(it.node.Value) == "" {
		it.fault("%s is empty", it.name())
		return "", false
	}
	return it.node.Value, true
}

// list is the items of a list that has some.
func (it item) list() []item {
	if !it.is(yaml.SequenceNode, "a list, such as [a, b]") {
		return nil
	}
	if len(it.node.Content) == 0 {
		it.fault("%s is an empty list: leave it out", it.name())
	}
	if len(it.node.Content) > maxItems {
		it.fault("%s has %d items: %d are the most", it.name(), len(it.node.Content), maxItems)
		return nil
	}
	items := make([]item, len(it.node.Content))
	for i, n := range it.node.Content {
		items[i] = it.child(strconv.Itoa(i), n)
	}
	return items
}

// entries are the keys of a mapping that has some, in the order of the file.
func (it item) entries() []entry {
	if !it.is(yaml.MappingNode, "a mapping, such as {key: value}") {
		return nil
	}
	if len(it.node.Content) == 0 {
		it.fault("%s has no keys: leave it out", it.name())
	}
	if n := len(it.node.Content) / 2; n > maxKeys {
		it.fault("%s has %d keys: %d are the most", it.name(), n, maxKeys)
		return nil
	}
	var entries []entry
	seen := map[string]bool{}
	for i := 0; i+1 < len(it.node.Content); i += 2 {
		key := it.node.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == nullTag || key.Tag == mergeTag || seen[key.Value] {
			continue
		}
		seen[key.Value] = true
		entries = append(entries, entry{
			name: key.Value,
			key:  item{it.doc, key, it.path},
			item: it.child(key.Value, it.node.Content[i+1]),
		})
	}
	return entries
}

// fields are the values of a mapping whose keys are known. One that is needed
// and missing is a fault, and so is an unknown one.
func (it item) fields(needed, optional []string) map[string]item {
	known := append(needed[:len(needed):len(needed)], optional...)
	fields := map[string]item{}
	for _, e := range it.entries() {
		if !slices.Contains(known, e.name) {
			e.key.fault("unknown key %q%s", e.name, smelt.DidYouMean(e.name, known...))
			continue
		}
		fields[e.name] = e.item
	}
	if it.node.Kind != yaml.MappingNode {
		return fields
	}
	for _, name := range needed {
		if _, ok := fields[name]; !ok {
			it.fault("%s lacks the key %q", it.name(), name)
		}
	}
	return fields
}
