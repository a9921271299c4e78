package table_test

import (
	"testing"

	"smelt/internal/table"
	"smelt/internal/table/tabletest"
)

func TestMemoryCatalog(t *testing.T) {
	t.Parallel()
	tabletest.RunCatalog(t, func(*testing.T) table.Catalog { return table.NewMemoryCatalog() })
}
