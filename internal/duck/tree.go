package duck

import (
	"encoding/json"
	"strconv"
)

// The functions here read the nodes of the tree that json_serialize_sql gives.

// nearest gives the first place in a tree, or -1.
func nearest(node any) int {
	first := -1
	take := func(pos int) {
		if pos >= 0 && (first < 0 || pos < first) {
			first = pos
		}
	}
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			take(nearest(v))
		}
	case map[string]any:
		take(position(n))
		for _, v := range n {
			take(nearest(v))
		}
	}
	return first
}

func position(n map[string]any) int {
	number, ok := n["query_location"].(json.Number)
	if !ok {
		return -1
	}
	pos, err := strconv.Atoi(string(number))
	if err != nil {
		return -1
	}
	return pos
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		out = append(out, str(item))
	}
	return out
}

func empty(v any) bool {
	list, ok := v.([]any)
	return !ok || len(list) == 0
}
