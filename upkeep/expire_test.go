package upkeep_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"smelt"
	"smelt/gold"
	"smelt/internal/duck"
	"smelt/internal/ledger"
	"smelt/internal/pipetest"
	"smelt/internal/staging"
	"smelt/internal/store"
	"smelt/internal/table"
	"smelt/pipeline"
	stage "smelt/silver"
	"smelt/upkeep"
)

// expiring is a pipeline's tables in memory, to which a test commits by hand.
type expiring struct {
	t      *testing.T
	model  smelt.Model
	area   staging.Area
	tasks  []upkeep.Task
	tables map[string]*table.Table
}

func expire(t *testing.T) *expiring {
	p, err := pipeline.Read(fstest.MapFS{
		"p/pipeline.yml": {Data: []byte("source: {kafka: t}\nevents: {time: ts, columns: {ts: timestamptz not null}}\ngold: {x: {window: 1h, column: hour}}\n")},
		"p/silver.sql":   {Data: []byte("SELECT ts, _partition_id, _partition_offset FROM bronze.p")},
		"p/x.sql":        {Data: []byte("SELECT date_trunc('hour', ts) AS hour FROM silver.p")},
	}, "p")
	if err != nil {
		t.Fatal(err)
	}
	objects := store.NewMemory()
	area := staging.Area{Store: objects, Lake: table.Open(objects, table.NewMemoryCatalog(), "s3://test")}
	k := &expiring{t: t, model: p.Gold[0], area: area, tables: map[string]*table.Table{}}
	for _, task := range upkeep.Tasks(upkeep.Config{Pipeline: p, Area: area, Duck: new(duck.DB), Locker: pipetest.NewLocks(), Log: slog.New(slog.DiscardHandler)}) {
		if task.Kind == upkeep.KindExpire {
			k.tasks = append(k.tasks, task)
		}
	}
	columns := []smelt.Column{{Name: "ts", Type: smelt.Type{Name: "timestamptz"}}}
	for _, name := range []string{"silver.p", "quarantine.p", "gold.p_x"} {
		if k.tables[name], err = area.Lake.Create(t.Context(), name, table.Definition{Columns: columns}); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// commit makes a snapshot with a ledger, and returns its id.
func commit[L ledger.Silver | ledger.Quarantine | ledger.Gold](k *expiring, name string, l L, add ...table.File) int64 {
	k.t.Helper()
	change := table.Change{Add: add}
	if err := ledger.Write(&change, l); err != nil {
		k.t.Fatal(err)
	}
	t, err := k.load(name).Commit(k.t.Context(), change)
	if err != nil {
		k.t.Fatal(err)
	}
	current, _ := t.Current()
	return current.ID
}

func (k *expiring) load(name string) *table.Table {
	k.t.Helper()
	t, err := k.area.Lake.Load(k.t.Context(), name)
	if err != nil {
		k.t.Fatal(err)
	}
	return t
}

// seen is the ledger of a gold table that has taken a silver snapshot in.
func (k *expiring) seen(silver int64) ledger.Gold {
	return ledger.Gold{SilverSnapshot: silver, Model: gold.Digest(k.model)}
}

func (k *expiring) step() {
	k.t.Helper()
	for _, task := range k.tasks {
		if err := task.Do(k.t.Context(), func(upkeep.Job, upkeep.Done, time.Duration, error) {}); err != nil {
			k.t.Fatal(err)
		}
	}
}

// file is a data file of a table in all but its content.
func (k *expiring) file(name string, n int) smelt.DataFile {
	return smelt.DataFile{Path: fmt.Sprintf("%s/data/%d.parquet", k.area.Lake.Key(k.load(name).Location()), n), Rows: 1, Bytes: 4}
}

// TestExpire lets silver make 400 snapshots in two hours, with gold a few behind.
func TestExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := expire(t)
		var ids []int64
		recorded := 0
		for i := range 400 {
			file, err := k.load("silver.p").NewFile(k.file("silver.p", i))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, commit(k, "silver.p", ledger.Silver{Position: map[int32]int64{0: int64(i)}}, file))
			if i%30 == 0 && i < 380 {
				recorded = i
				commit(k, "gold.p_x", k.seen(ids[i]))
			}
			time.Sleep(18 * time.Second)
			if i%10 == 9 {
				k.step()
			}
		}
		s := k.load("silver.p")
		if n := len(s.Ancestors()); n < 200 || n > 250 {
			t.Errorf("%d snapshots of silver on main, want 200 to 250", n)
		}
		if n := len(s.Snapshots()); n > 255 {
			t.Errorf("%d snapshots of silver in all, want 200 to 250 and those of the hours before", n)
		}
		added, removed, err := s.Changes(t.Context(), ids[recorded], ids[399])
		if err != nil || len(added) != 399-recorded || len(removed) != 0 {
			t.Errorf("since the snapshot that gold recorded %d files were added, %d removed, %v; want %d added", len(added), len(removed), err, 399-recorded)
		}
		for i, snapshot := range s.Snapshots() {
			if i%20 != 0 {
				continue
			}
			files, err := s.Files(t.Context(), snapshot.ID)
			l, _, _ := ledger.Of[ledger.Silver](snapshot)
			if want := int(l.Position[0]) + 1; err != nil || len(files) != want {
				t.Errorf("snapshot %d has %d files, %v; want %d", snapshot.ID, len(files), err, want)
			}
		}
	})
}

// TestExpireLeavesWhatGoldNeeds has gold stuck at an old snapshot.
func TestExpireLeavesWhatGoldNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := expire(t)
		for range 50 {
			commit(k, "silver.p", ledger.Silver{})
		}
		commit(k, "gold.p_x", k.seen(commit(k, "silver.p", ledger.Silver{})))
		for range 250 {
			commit(k, "silver.p", ledger.Silver{})
		}
		time.Sleep(time.Hour)
		k.step()
		if n := len(k.load("silver.p").Ancestors()); n != 251 {
			t.Errorf("%d snapshots are left; want 251, those that gold has not seen and the one that it has", n)
		}
	})
}

// TestExpireWhileGoldIsComputed: a gold table of another model must be computed as a whole. The snapshot that this reads
// stays long enough.
func TestExpireWhileGoldIsComputed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := expire(t)
		from := func(model string) ledger.Gold {
			l := k.seen(commit(k, "silver.p", ledger.Silver{}))
			l.Model += model
			return l
		}
		commit(k, "gold.p_x", from("of before"))
		for range 300 {
			commit(k, "gold.p_x", from("of before"))
		}
		time.Sleep(time.Hour)
		k.step()
		if n := len(k.load("silver.p").Ancestors()); n != 301 {
			t.Errorf("%d snapshots are left of 301", n)
		}
		commit(k, "gold.p_x", from(""))
		k.step()
		if n := len(k.load("silver.p").Ancestors()); n != 200 {
			t.Errorf("%d snapshots are left once gold is computed, want 200", n)
		}
	})
}

// TestExpireLeavesPairs commits to silver and quarantine for days. For every snapshot of silver that is left, the
// quarantine snapshot that belongs to it is left, too.
func TestExpireLeavesPairs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := expire(t)
		for i := range 400 {
			id := fmt.Sprint(i)
			commit(k, "quarantine.p", ledger.Quarantine{ID: id})
			newest := commit(k, "silver.p", ledger.Silver{Quarantine: id})
			commit(k, "gold.p_x", k.seen(newest))
			time.Sleep(11 * time.Minute)
			if i%60 == 59 { // quarantine alone, as another engine does
				for range 60 {
					if _, err := k.load("quarantine.p").Commit(t.Context(), table.Change{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			k.step()
		}
		pair, err := stage.LoadPair(t.Context(), k.area.Lake, "p")
		if err != nil {
			t.Fatal(err)
		}
		if parted, err := pair.Parted(); err != nil || parted {
			t.Errorf("parted: %v, %v", parted, err)
		}
		left := pair.Silver.Snapshots()
		for _, s := range left {
			l, _, err := ledger.Of[ledger.Silver](s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pair.At(l); err != nil {
				t.Errorf("what belongs to silver's snapshot %d is gone: %v", s.ID, err)
			}
		}
		if n := len(pair.Quarantine.Snapshots()); len(left) < 200 || len(left) > 400 || n > len(left)+300 {
			t.Errorf("%d and %d snapshots are left", len(left), n)
		}
	})
}
