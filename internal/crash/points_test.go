package crash_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// point is something that smelt does and others can see. A process may die before it,
// or right after, with the effect there and the reply never seen.
type point struct {
	does   string // what, in the field's words
	call   string // the calls that are it: a regular expression of a doing
	before string // what a death before it leaves behind
	after  string // what one after it does
	next   string // who goes on, and how
}

// leaves says whether deaths at two points leave the same.
func (p point) leaves(o point) bool {
	return p.before == o.before && p.after == o.after && p.next == o.next
}

// part is what a part of smelt does.
type part struct {
	name   string
	about  string
	points []point
}

// words are what stands at points of several parts: what a death before, and after
// leaves behind, and who goes on.
type words struct{ before, after, next string }

const (
	unseen  = "Files that no snapshot has."
	orphans = "Whoever does it again writes files of its own; the search for orphans deletes these after 72 hours."
	again   = "The next process does it again, from what it finds."
)

// staged is the point at which a file is put that a commit is to have.
func staged(does, call string) point { return point{does, call, unseen, "One more of them.", orphans} }

// commit is the points of a commit with data files.
func commit(by, folder, name string, w words) []point {
	return append([]point{
		staged("put a manifest", by+" put "+folder+"/metadata/-m.*avro > "+name),
		staged("put the manifest list", by+" put "+folder+"/metadata/snap-.* > "+name),
	}, swaps("", by, folder, name, w)...)
}

// swaps are the points of a change of metadata alone; of says whose, where there are
// several.
func swaps(of, by, folder, name string, w words) []point {
	return []point{
		staged("put the metadata file"+of, by+" put "+folder+"/metadata/(new)?[.]metadata[.]json > "+name),
		{"swap the catalog's pointer" + of, by + " swap " + name, w.before, w.after, w.next},
	}
}

// tidies is the point at which a commit deletes the metadata file that leaves the list
// of the last twenty.
func tidies(by, folder string) point {
	return point{"delete the oldest metadata file", by + " delete " + folder + "/metadata/.metadata.json",
		"The commit, and a file that it no longer lists.", "The commit.", "Nobody has to; the search for orphans takes the file."}
}

// merges is the point at which an append deletes the manifests that it has merged.
func merges(by, folder string) point {
	return point{"delete manifests that were merged before they were of use", by + " delete " + folder + "/metadata/-m.*avro",
		"The commit, and manifests that it does not have.", "The commit.", "Nobody has to; the search for orphans takes them."}
}

// locks is the point at which a lock is taken.
func locks(by, name, does string) point {
	return point{does, by + " lock " + name, "What was there before.", "The same: the lock is free once the connection has ended.", "The next process takes it."}
}

const (
	silverDir     = "silver/readings"
	quarantineDir = "quarantine/readings"
	goldDir       = "gold/readings_hourly"
	pairDir       = "(silver|quarantine)/readings"
	pairName      = "(quarantine[.]readings[+])?silver[.]readings" // a step may reject nothing
	anyDir        = "[a-z]+/readings[a-z_]*"
	anyTable      = "[a-z]+[.]readings[a-z_]*"
)

// parts are all points, in the order of the line. The test fails if smelt does something that is not listed, or never does
// something that is.
func parts() []part {
	list := func(points ...[]point) []point { return slices.Concat(points...) }
	one := func(points ...point) []point { return points }
	return []part{
		{"Start", "`smelt run` makes the tables, or brings them to what the pipeline is now.", list(
			swaps(" of a new table", "(prepare|silver|gold)", anyDir, "new "+anyTable, words{"No table.", "The table, empty.", "The next start, or the next step, takes the table as it finds it."}),
			swaps(" of a table that changes", "prepare", anyDir, anyTable, words{"The table as it was.", "The table with its new columns.", again}),
			one(tidies("prepare", anyDir)),
		)},

		{"Bronze", "Records become objects. Where a partition goes on is where its chain of objects ends.", one(
			point{"put an object", "bronze put bronze/.*", "Records that only the topic has.", "The object, to be read by whoever follows the chain.",
				"Who gets the partition goes on at the chain's end, which it reads from the objects themselves."},
			point{"commit offsets to the source", "bronze commit", "Offsets in the consumer group that are too low.", "Offsets as the lake has them.",
				"Nobody has to: only Kafka's tools read them, and the next commit brings them up."},
		)},
		{"Bronze, when another writer comes first", "At one position exactly one object can be.", one(
			point{"put an object where one is", "bronze-beaten put bronze/.*", "The other's object.", "The other's object: the put is refused.",
				"The writer reads who is there, drops what that one has, and goes on after it."},
			point{"commit offsets to the source", "bronze-beaten commit", "Offsets in the consumer group that are too low.", "Offsets as the lake has them.",
				"Nobody has to: the next commit brings them up."},
		)},

		{"Silver", "Rows, rejects and the position become visible together: one transaction of the catalog moves silver and quarantine.", list(
			one(
				locks("(silver|silver-beaten)", silverName, "lock the table"),
				staged("upload a data file", "(silver|silver-beaten) put "+silverDir+"/data/.*"),
				staged("upload the rejects", "(silver|silver-beaten) put "+quarantineDir+"/data/.* > "+pairName),
			),
			commit("(silver|silver-beaten)", pairDir, pairName, words{"Both tables as they were, and objects that silver has not read.", "Rows, rejects and position.",
				"The next step goes on at the position."}),
			one(tidies("silver", pairDir), merges("silver", pairDir)),
		)},
		{"Silver, when another process commits first", "The commit is refused for certain, so its files can go at once.", one(
			point{"delete the metadata file, and the manifests", "silver-beaten delete " + pairDir + "/metadata/.*", unseen, "Fewer of them.", orphans},
			point{"delete data files and rejects", "silver-beaten delete " + pairDir + "/data/.*", unseen, "Nothing of the step.", orphans},
		)},
		{"Gold", "Windows are replaced, and the silver snapshot noted, in one snapshot.", list(
			one(
				locks("(gold|gold-beaten|backfill)", goldName, "lock the table"),
				staged("upload a data file", "(gold|gold-beaten|backfill) put "+goldDir+"/data/.*"),
			),
			commit("(gold|gold-beaten|backfill)", goldDir, goldName, words{"Gold as of the silver snapshot that it notes.", "The windows, and the snapshot that they are of.",
				"The next refresh finds the windows that have changed since the snapshot noted."}),
			one(tidies("gold", goldDir)),
		)},
		{"Gold, when another process commits first", "As for silver.", one(
			point{"delete the metadata file, and the manifests", "gold-beaten delete " + goldDir + "/metadata/.*", unseen, "Fewer of them.", orphans},
			point{"delete data files", "gold-beaten delete " + goldDir + "/data/.*", unseen, "Nothing of the refresh.", orphans},
		)},

		{"Backfill", "`smelt backfill`: until the commit nothing that is published has changed. Then gold follows, as above.", list(
			one(
				locks("backfill", "backfill.readings", "lock backfills of the pipeline"),
				staged("upload a piece", "backfill put "+silverDir+"/data/.*"),
				locks("backfill", silverName, "lock silver, to publish"),
				staged("upload what goes into quarantine, and what stays of files that records come out of", "backfill put "+quarantineDir+"/data/.* > .*"),
			),
			swaps(" with a tag on what was before", "backfill", anyDir, "tag "+anyTable, words{"Silver, quarantine and gold as they were.", "A tag of 30 days on quarantine's or gold's newest snapshot, and none on silver's.",
				"The next one sets tags of its own; expiry drops this one after 30 days."}),
			commit("backfill", pairDir, pairName, words{"Silver and quarantine as they were.", "The correction, whole, and the tag on what was before; gold is still of the snapshot before.",
				"Run it again: it plans anew, and finds what is left to do. When it was published, gold's next refresh follows."}),
		)},
		{"Healing", "A small backfill that `smelt run` does by itself.", list(
			one(
				locks("heal", "backfill.readings", "lock backfills of the pipeline"),
				staged("upload a piece", "heal put "+silverDir+"/data/.*"),
				locks("heal", silverName, "lock silver, to publish"),
			),
			commit("heal", silverDir, silverName, words{"Rows without their reference.", "Rows with it.", again}),
		)},

		{"Merging bronze", "A merged object has a name of its own, so nothing is ever overwritten.", one(
			point{"put the merged object", "merge put bronze/.*", "The small objects.", "Both; readers take the merged one.", again},
			point{"delete the small objects, an hour later", "clean delete bronze/.*", "Both; readers take the merged one.", "The merged object.", again},
		)},
		{"Compaction", "One snapshot, a replace, in which a large file stands for small ones.", list(
			one(
				locks("compact", "backfill.readings", "look whether a backfill is at work, by its lock"),
				staged("upload the merged file", "compact put "+anyDir+"/data/.*"),
				locks("compact", silverName, "lock the table, to commit"),
			),
			commit("compact", anyDir, anyTable, words{"The small files.", "The large file; older snapshots still have the small ones.", again}),
			one(tidies("compact", anyDir)),
		)},
		{"Manifests", "The same files, in few manifests.", list(
			one(locks("manifests", goldName, "lock the table")),
			commit("manifests", goldDir, goldName, words{"Many manifests.", "Few.", again}),
			one(tidies("manifests", goldDir)),
		)},
		{"Expiry", "Snapshots that nobody keeps go first, then the files that only they had.", list(
			one(locks("expire", silverName, "lock the table")),
			swaps("", "expire", silverDir, silverName, words{"All snapshots.", "The snapshots that are kept, and files that none of them has.", "The next expiry drops the snapshots; files that are left are orphans, and go after 72 hours."}),
			one(point{"delete the files", "expire delete " + silverDir + "/.*", "Files that no snapshot has.", "Fewer, or none of them.", "The search for orphans."}),
		)},
		{"Orphans", "A fence in the metadata first: commits that began before it are refused.", list(
			one(locks("orphans", silverName, "lock the table")),
			swaps("", "orphans", anyDir, anyTable, words{"Orphans.", "The fence, which refuses whoever was about to commit; that one begins again.", again}),
			one(
				tidies("orphans", anyDir),
				point{"delete the orphans", "orphans delete " + anyDir + "/data/.*", "Orphans.", "Fewer, or none.", again},
			),
		)},
		{"Retention", "What is older than `retain:` says.", list(
			one(
				locks("retain", "backfill.readings", "lock backfills of the pipeline"),
				point{"put the object that a chain's beginning is retired into", "retain put bronze/.*", "The objects of before.", "Both; readers take the retired one, which has what quarantine may need.", again},
				locks("retain", anyTable, "lock the table"),
			),
			commit("retain", anyDir, anyTable, words{"All rows.", "The rows that stay, and in the ledger from when on the table is whole.", again}),
			one(tidies("retain", anyDir)),
		)},

		{"Tag", "`smelt tag`.", list(
			swaps("", "tag", silverDir, silverName, words{"No tag.", "The tag.", "Run it again: a tag that is there stays as it is."}),
			one(tidies("tag", silverDir)),
		)},
		{"Rollback", "`smelt rollback` of silver, and of quarantine with it; at silver's next step the records are read again.", list(
			one(locks("rollback", silverName, "lock the table")),
			swaps("", "rollback", pairDir, pairName, words{"Silver and quarantine as they were.", "Both, and the position, as of then, and a tag on what they were at.", "Run it again, if `smelt history` does not show it; the line goes on from where silver is."}),
			one(tidies("rollback", pairDir)),
		)},
		{"Rollback by another engine", "It moves silver alone. Silver's next step brings quarantine to where silver is, before anything else.", list(
			swaps(" of quarantine", "silver", quarantineDir, "rollback "+quarantineName, words{"Quarantine with records that silver will read again.", "Quarantine as of then, too.", "Silver's next step looks first whether the two belong together."}),
		)},
		{"Drop", "`smelt drop`: tables, one after the other, and bronze last.", one(
			locks("drop", anyTable, "lock the table"),
			point{"put the mark into the folder", "drop put .*/dropped", "The table.", "The table, with a mark that counts for nothing while the catalog has it.", "Run it again."},
			point{"take the table out of the catalog", "drop drop .*", "The table, marked.", "A folder of no table; a new table of the name gets another one.", "Run it again: the mark tells what is left."},
			point{"delete what is in the folder", "drop delete .*(parquet|avro|json)", "A marked folder.", "Less of it, and the mark.", "Run it again: the mark tells what is left."},
			point{"delete the mark", "drop delete .*/dropped", "The mark.", "Nothing.", "Run it again, for the other tables."},
			locks("drop", "maintain[.]bronze[.]readings", "lock the maintenance of bronze"),
			point{"delete bronze's objects, the last ones first", "drop delete bronze/.*", "Bronze.", "The beginning of each chain, or nothing.", "Run it again; a pipeline that is started reads the topic from the chain's end on."},
		)},
	}
}

// doings says what each call of an act is for: a put by the table that is swapped next, and a swap by whether it is "new" or has
// no files.
func doings(by string, did []string) []string {
	out := make([]string, len(did))
	next, isSwap := "", by+" swap "
	for i, d := range slices.Backward(did) {
		if name, ok := strings.CutPrefix(d, isSwap); ok {
			next = kind(by, did[:i]) + name
			out[i] = isSwap + next
			continue
		}
		if out[i] = d; strings.HasPrefix(d, by+" put ") && next != "" {
			out[i] += " > " + next
		}
	}
	return out
}

// kind is that of the swap which comes after some calls: "" of a commit with files.
func kind(by string, before []string) string {
	for _, d := range slices.Backward(before) {
		switch {
		case strings.HasSuffix(d, "/new.metadata.json"):
			return "new "
		case strings.Contains(d, "/snap-"):
			return ""
		case strings.Contains(d, " swap "):
			return bare[by]
		}
	}
	return bare[by]
}

// bare says what a swap without files is, by who makes it: elsewhere it is all that
// they do.
var bare = map[string]string{"backfill": "tag ", "silver": "rollback "}

const preamble = `# Crash points

Where smelt can die, what it leaves behind there, and who goes on. TestCrash in internal/crash plays a scenario, dies before and after each of these, and
writes this file (-update): it fails when smelt does something that is not here, or never does what is.

After each death it checks that no table has a file that is missing. Then a new process goes on, with nothing but what is durable, and in the end
rows, records and counts of every layer are those of a run without a death, verify finds nothing, and four days later the search for
orphans has left nothing that no table has.

To die after one thing is to die before the next, since reads, which lie between, leave nothing behind. Local files (the cache, DuckDB's temporary ones) count for
nothing: the next process begins without them.
`

// document gives the points as Markdown.
func document(parts []part) string {
	var b strings.Builder
	b.WriteString(preamble)
	for _, p := range parts {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| what it does | a death before it leaves | a death after it leaves | who goes on |\n|---|---|---|---|\n", p.name, p.about)
		does := "" // of the points before with the same words
		for i, at := range p.points {
			if same := i+1 < len(p.points) && at.leaves(p.points[i+1]); same {
				does += at.does + "<br>"
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", does+at.does, at.before, at.after, at.next)
			does = ""
		}
	}
	return b.String()
}

// index finds points by the calls that are them.
type index struct {
	names []string
	calls []*regexp.Regexp
}

func newIndex(parts []part) (x index) {
	for _, p := range parts {
		for _, at := range p.points {
			x.names = append(x.names, p.name+": "+at.does)
			x.calls = append(x.calls, regexp.MustCompile("^(?:"+at.call+")$"))
		}
	}
	return x
}

// of returns the name of a doing's point, or "".
func (x index) of(doing string) string {
	for i, call := range x.calls {
		if call.MatchString(doing) {
			return x.names[i]
		}
	}
	return ""
}
