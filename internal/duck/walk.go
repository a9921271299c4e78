package duck

import (
	"maps"
	"slices"
	"strings"
)

// walker collects a Statement from the tree that DuckDB's json_serialize_sql
// gives for it.
type walker struct {
	Statement
	text string
}

// scope is the names that mean something else at a place in the tree.
type scope struct {
	ctes    map[string]bool // lower case
	lambdas map[string]bool // parameters, lower case
}

func (s scope) withCTE(name string) scope {
	s.ctes = with(s.ctes, name)
	return s
}

func with(set map[string]bool, names ...string) map[string]bool {
	set = maps.Clone(set)
	if set == nil {
		set = map[string]bool{}
	}
	for _, n := range names {
		set[strings.ToLower(n)] = true
	}
	return set
}

func (w *walker) walk(node any, sc scope) {
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			w.walk(v, sc)
		}
	case map[string]any:
		w.node(n, sc)
	}
}

// node visits a node, and then its children.
func (w *walker) node(n map[string]any, sc scope) {
	sc = w.withCTEs(n, sc)
	if str(n["type"]) == "RECURSIVE_CTE_NODE" {
		sc = sc.withCTE(str(n["cte_name"]))
	}
	if str(n["class"]) == "LAMBDA" {
		if parameters := w.lambda(n); len(parameters) > 0 {
			sc.lambdas = with(sc.lambdas, parameters...)
			w.walk(n["expr"], sc)
			return
		}
	}
	w.visit(n, sc)
	for _, k := range slices.Sorted(maps.Keys(n)) {
		if k != "cte_map" {
			w.walk(n[k], sc)
		}
	}
}

// withCTEs visits the CTEs of a SELECT. Each sees those before it.
func (w *walker) withCTEs(n map[string]any, sc scope) scope {
	ctes, _ := n["cte_map"].(map[string]any)
	entries, _ := ctes["map"].([]any)
	for _, e := range entries {
		if entry, ok := e.(map[string]any); ok {
			w.walk(entry["value"], sc)
			sc = sc.withCTE(str(entry["key"]))
		}
	}
	return sc
}

// lambda returns a lambda's parameters. It returns none if the node is the JSON operator ->, which the parser cannot
// distinguish from x -> x + 1. Then the name on the left occurs on the right again.
func (w *walker) lambda(n map[string]any) []string {
	left := &walker{}
	left.walk(n["lhs"], scope{})
	var names []string
	for _, c := range left.Columns {
		names = append(names, c.Text)
	}
	lhs, _ := n["lhs"].(map[string]any)
	if position(lhs) < 0 { // written with the word lambda
		return names
	}
	right := &walker{}
	right.walk(n["expr"], scope{})
	for _, c := range right.Columns {
		if slices.Contains(names, c.Path[0]) {
			return names
		}
	}
	return nil
}

func (w *walker) visit(n map[string]any, sc scope) {
	pos := position(n)
	switch str(n["type"]) {
	case "SELECT_NODE":
		w.selectNode(n)
	case "DISTINCT_MODIFIER":
		w.feature(FeatureDistinct, -1)
	case "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER":
		w.feature(FeatureLimit, -1)
	case "SET_OPERATION_NODE":
		w.feature(strings.TrimSuffix(str(n["setop_type"]), "_BY_NAME"), -1)
	case "RECURSIVE_CTE_NODE":
		w.feature(FeatureRecursive, -1)
	case "SUBQUERY":
		if str(n["class"]) == "SUBQUERY" {
			w.feature(FeatureSubquery, pos)
		}
	case "JOIN":
		w.join(n, pos)
	case "BASE_TABLE":
		w.table(n, pos, sc)
	case "TABLE_FUNCTION":
		w.Sources = append(w.Sources, Name{Text: "a table function", Position: pos})
	case "EXPRESSION_LIST":
		w.Sources = append(w.Sources, Name{Text: "VALUES", Position: w.keyword("VALUES", nearest(n))})
	case "SHOW_REF":
		w.Sources = append(w.Sources, Name{Text: "DESCRIBE, SHOW or SUMMARIZE", Position: max(pos, 0)})
	case "PIVOT", "COLUMN_DATA", "DELIM_GET":
		w.Sources = append(w.Sources, Name{Text: str(n["type"]), Position: max(pos, 0)})
	case "FUNCTION":
		w.function(n, pos)
	case "COLUMN_REF":
		if path := texts(n["column_names"]); len(path) > 0 && !sc.lambdas[strings.ToLower(path[0])] {
			w.Columns = append(w.Columns, Name{Text: path[len(path)-1], Path: path, Position: pos})
		}
	}
	switch str(n["class"]) {
	case "WINDOW":
		w.feature(FeatureWindow, pos)
	case "POSITIONAL_REFERENCE":
		w.feature(FeatureNumber, pos)
	case "STAR":
		if columns, _ := n["columns"].(bool); columns {
			w.feature(FeatureColumns, pos)
		}
	case "PARAMETER":
		w.feature(FeatureParameter, w.keyword("?", w.keyword("$", -1)))
	}
	if n["sample"] != nil {
		w.feature(FeatureSample, -1)
	}
}

func (w *walker) selectNode(n map[string]any) {
	if !empty(n["group_sets"]) || !empty(n["group_expressions"]) || str(n["aggregate_handling"]) == "FORCE_AGGREGATES" {
		w.feature(FeatureGroupBy, -1)
	}
	if n["having"] != nil {
		w.feature(FeatureHaving, -1)
	}
	if n["qualify"] != nil {
		w.feature(FeatureQualify, -1)
	}
}

// feature notes a feature. One whose node has no place stands where its keyword
// stands first.
func (w *walker) feature(name string, pos int) {
	if pos < 0 {
		pos = w.keyword(strings.Fields(name)[0], -1)
	}
	w.Features = append(w.Features, Name{Text: name, Position: pos})
}

// keyword finds a word, or else gives the offset otherwise.
func (w *walker) keyword(word string, otherwise int) int {
	for _, t := range tokens(w.text) {
		if strings.EqualFold(w.text[t.start:t.end], word) || word == "SAMPLE" && strings.EqualFold(w.text[t.start:t.end], "TABLESAMPLE") {
			return t.start
		}
	}
	return otherwise
}

func (w *walker) join(n map[string]any, pos int) {
	if pos < 0 {
		pos = nearest(n["right"]) // a comma
	}
	if right, _ := n["right"].(map[string]any); str(right["type"]) == "BASE_TABLE" {
		w.Joins = append(w.Joins, joinOf(n, tableName(right)))
	}
	for _, column := range texts(n["using_columns"]) {
		w.Using = append(w.Using, Name{Text: column, Position: pos})
	}
	switch kind, how := str(n["join_type"]), str(n["ref_type"]); {
	case how == "CROSS":
		w.feature(FeatureCross, pos)
	case how == "POSITIONAL":
		w.feature(FeaturePositional, pos)
	case how == "NATURAL":
		w.feature(FeatureNatural, pos)
	case kind == "FULL" || kind == "OUTER":
		w.feature(FeatureFull, pos)
	case kind == "RIGHT":
		w.feature(FeatureRight, pos)
	}
}

func (w *walker) table(n map[string]any, pos int, sc scope) {
	name, schema := str(n["table_name"]), str(n["schema_name"])
	if n["at_clause"] != nil {
		w.feature(FeatureAt, pos)
	}
	if schema == "" && sc.ctes[strings.ToLower(name)] {
		return
	}
	w.Tables = append(w.Tables, tableName(n))
}

// tableName names a base table.
func tableName(n map[string]any) Name {
	t := Name{Text: str(n["table_name"]), Alias: str(n["alias"]), Position: position(n)}
	if t.Alias == "" {
		t.Alias = t.Text
	}
	for _, qualifier := range []string{str(n["schema_name"]), str(n["catalog_name"])} {
		if qualifier != "" {
			t.Text = qualifier + "." + t.Text
		}
	}
	return t
}

// joinOf returns the columns by which a table is joined. If they have other names in the join, they are unknown.
func joinOf(n map[string]any, table Name) Join {
	j := Join{Table: table}
	if right, _ := n["right"].(map[string]any); !empty(right["column_name_alias"]) {
		return j
	}
	for _, column := range texts(n["using_columns"]) {
		j.Equal = append(j.Equal, [2][]string{{table.Alias, column}, {column}})
	}
	condition, _ := n["condition"].(map[string]any)
	j.Equal = append(j.Equal, equal(condition)...)
	return j
}

// equal gives the columns that are equal where a condition is true.
func equal(condition map[string]any) (pairs [][2][]string) {
	switch str(condition["type"]) {
	case "CONJUNCTION_AND":
		children, _ := condition["children"].([]any)
		for _, c := range children {
			child, _ := c.(map[string]any)
			pairs = append(pairs, equal(child)...)
		}
	case "COMPARE_EQUAL":
		left, _ := condition["left"].(map[string]any)
		right, _ := condition["right"].(map[string]any)
		a, b := texts(left["column_names"]), texts(right["column_names"])
		if len(a) > 0 && len(b) > 0 {
			pairs = append(pairs, [2][]string{a, b})
		}
	}
	return pairs
}

func (w *walker) function(n map[string]any, pos int) {
	if operator, _ := n["is_operator"].(bool); operator {
		return
	}
	children, _ := n["children"].([]any)
	w.Functions = append(w.Functions, Name{Text: strings.ToLower(str(n["function_name"])), Children: len(children), Position: pos})
}

// outputs notes what the outermost SELECT gives.
func (w *walker) outputs(n map[string]any) {
	list, _ := n["select_list"].([]any)
	for _, item := range list {
		expr, _ := item.(map[string]any)
		out := Name{Text: str(expr["alias"]), Position: nearest(expr)}
		switch path := texts(expr["column_names"]); {
		case str(expr["type"]) == "STAR":
			out.Text = "*"
		case len(path) > 0:
			out.Path = path
			if out.Text == "" {
				out.Text = path[len(path)-1]
			}
		}
		w.Outputs = append(w.Outputs, out)
	}
}
