package human_test

import (
	"testing"

	"smelt/internal/human"
)

func Test(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		human.Number(-1234567):    "-1,234,567",
		human.Number(999):         "999",
		human.Count(1, "row"):     "1 row",
		human.Count(0, "row"):     "0 rows",
		human.Count(12345, "row"): "12,345 rows",
		human.Bytes(512):          "512 B",
		human.Bytes(14438):        "14.1 KiB",
		human.Bytes(5 << 40):      "5.0 TiB",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
