package interop

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xetfs/xetfs/codec/journal"
)

// xetfs inspect lists the log of a LevelDB record by record, while its writer runs and after the
// database is closed. codec/journal writes the same bytes.
func TestLevelLog(t *testing.T) {
	var first, hard, long history
	first.write(put("before", []byte("the last log")), remove("nothing"))
	hard.hardCases(t)
	long.write(put("more than a reader takes in recovery", letters(17<<20)))
	later := history{seq: first.seq}
	later.hardCases(t)
	for _, tt := range []struct {
		name  string
		opens []history // each is a log of its own; the last one exists in the end
	}{
		{"new", []history{hard}},
		{"without a record", []history{{}}},
		{"opened again", []history{first, later}},
		{"opened again, nothing written", []history{hard, {}}},
		{"long record", []history{long}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := t.TempDir()
			want := tt.opens[len(tt.opens)-1]
			closeDB := openLevel(t, db, tt.opens...)
			t.Run("open", func(t *testing.T) { checkLevel(t, db, want) })
			closeDB()
			t.Run("closed", func(t *testing.T) { checkLevel(t, db, want) })
		})
	}
}

// checkLevel compares the log and MANIFEST of a database with what was written.
func checkLevel(t *testing.T, db string, want history) {
	t.Helper()
	path := logOf(t, db)
	got, clean := inspectLog(t, path)
	if diff := cmp.Diff(want.seen(want.end()), got); diff != "" || !clean {
		t.Errorf("log, clean %v (-want +got):\n%s", clean, diff)
	}
	if b := read(t, path); !bytes.Equal(b, want.journal(t)) {
		t.Errorf("codec/journal writes something else than the %d bytes of the log", len(b))
	}
	checkManifest(t, db)
}

// A log that is cut anywhere has the records before the cut, by inspect and by LevelDB.
func TestLevelLogCut(t *testing.T) {
	var h history
	h.write(put("first", []byte("value")))
	h.write(put("long", letters(80_000)), remove("first"))
	h.fill(t, 3)
	h.write(put("behind a trailer", nil))
	h.fill(t, 7)
	h.write(put("behind an empty first part", letters(40_000)))
	h.write(put("last", []byte("value")))
	db := t.TempDir()
	openLevel(t, db, h)()

	var copies []string
	var want []map[string][]byte
	for _, n := range h.cuts() {
		folder := copyLevel(t, db, func(log []byte) []byte { return log[:n] })
		got, clean := inspectLog(t, logOf(t, folder))
		seen := h.seen(n)
		if diff := cmp.Diff(seen, got); diff != "" || clean != (seen.Prefix.Tail == "clean") {
			t.Errorf("cut at %d of %d, clean %v (-want +got):\n%s", n, h.end(), clean, diff)
		}
		copies = append(copies, folder)
		want = append(want, h.content(seen.Events))
	}
	checkContents(t, copies, want)
}

// LevelDB also reads the records of a damaged log that inspect lists behind the damage.
func TestLevelLogDamaged(t *testing.T) {
	var h history
	h.write(put("overwritten", []byte("first")), put("removed", nil))
	for i := range 40 {
		h.write(put(fmt.Sprint("key ", i), letters(i*200)), put("overwritten", []byte{byte(i)}))
	}
	h.write(remove("removed"), put("long", letters(100_000)))
	h.write(put("last", nil))
	db := t.TempDir()
	openLevel(t, db, h)()

	var copies []string
	var want []map[string][]byte
	for _, off := range []int{0, 4, 5, 6, 7, 30, 1000, 32767, 32768, 32773, 65536 + 6, 100_000, 150_000, h.end() - 1} {
		folder := copyLevel(t, db, func(log []byte) []byte {
			log[off] ^= 0x41
			return log
		})
		got, clean := inspectLog(t, logOf(t, folder))
		dropped := slices.ContainsFunc(got.Events, func(e event) bool { return e.Drop != nil })
		if !dropped || clean || len(got.Events) < 2 {
			t.Errorf("damaged at %d: %+v, clean %v", off, got, clean)
		}
		copies = append(copies, folder)
		want = append(want, h.content(got.Events))
	}
	checkContents(t, copies, want)
}

// LevelDB recovers a log that codec/journal wrote, from its beginning or behind what a
// LevelDB wrote.
func TestLevelRecoversJournal(t *testing.T) {
	var first, h history
	first.write(put("of LevelDB", []byte("value")), put("removed", letters(50_000)))
	h.write(put("of LevelDB", []byte("value")), put("removed", letters(50_000)))
	h.write(remove("removed"))
	h.hardCases(t)
	var copies []string
	for _, written := range []history{{}, first} {
		db := t.TempDir()
		openLevel(t, db, written)()
		copies = append(copies, copyLevel(t, db, func(log []byte) []byte {
			b := bytes.NewBuffer(log)
			w := journal.NewWriter(b, int64(len(log)))
			for _, record := range h.records[len(written.records):] {
				if _, _, err := w.Append(record.bytes); err != nil {
					t.Fatal(err)
				}
			}
			return b.Bytes()
		}))
	}
	all := h.content(h.seen(h.end()).Events)
	checkContents(t, copies, []map[string][]byte{all, all})
}

// A MANIFEST with many records names the tables that exist.
func TestLevelManifest(t *testing.T) {
	db := t.TempDir()
	var opens []history
	var seq uint64
	for i := range 30 {
		h := history{seq: seq}
		h.write(put(fmt.Sprint("key ", i%7), letters(i*1000)), put("always", []byte{byte(i)}))
		opens, seq = append(opens, h), h.seq
	}
	compactLevel(t, db, opens...)
	if n := checkManifest(t, db); n < 30 {
		t.Errorf("%d records", n)
	}
}

// checkManifest compares the listing of the MANIFEST of a database with its content and with the
// folder. It returns the number of records.
func checkManifest(t *testing.T, db string) int {
	t.Helper()
	current := bytes.TrimSuffix(read(t, filepath.Join(db, "CURRENT")), []byte("\n"))
	path := filepath.Join(db, string(current))
	b := read(t, path)
	var want listed
	want.Format, want.Size, want.Prefix = "leveldb-log", len(b), prefix{ValidEnd: len(b), Tail: "clean"}
	log, tables := 0, map[int]bool{}
	for off, payload := range fullFragments(t, b) {
		e := decodeEdit(t, payload)
		if first := want.Prefix.Records == 0; first && e.comparator != "leveldb.BytewiseComparator" {
			t.Errorf("%s begins with comparator %q", path, e.comparator)
		}
		log = max(log, e.log)
		for _, n := range e.removed {
			delete(tables, n)
		}
		for _, n := range e.added {
			tables[n] = true
		}
		want.Events = append(want.Events, recordAt(off, payload))
		want.Prefix.Records++
	}
	if got, clean := inspectLog(t, path); !clean || !cmp.Equal(want, got) {
		t.Errorf("%s, clean %v (-want +got):\n%s", path, clean, cmp.Diff(want, got))
	}
	if want := filepath.Join(db, fmt.Sprintf("%06d.log", log)); logOf(t, db) != want {
		t.Errorf("%s names log %s", path, want)
	}
	var names []string
	for n := range maps.Keys(tables) {
		names = append(names, filepath.Join(db, fmt.Sprintf("%06d.ldb", n)))
	}
	slices.Sort(names)
	there, err := filepath.Glob(filepath.Join(db, "*.ldb"))
	if err != nil || !slices.Equal(names, there) {
		t.Errorf("%s names tables %v; %v are there, %v", path, names, there, err)
	}
	return want.Prefix.Records
}

// copyLevel copies a database with a changed log.
func copyLevel(t *testing.T, db string, change func(log []byte) []byte) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(db)); err != nil {
		t.Fatal(err)
	}
	path := logOf(t, to)
	if err := os.WriteFile(path, change(read(t, path)), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// checkContents compares databases, as LevelDB reads them, with what should be in them.
func checkContents(t *testing.T, dbs []string, want []map[string][]byte) {
	t.Helper()
	for i, got := range readLevel(t, dbs) {
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("database %d of %d has %d keys, want %d", i, len(dbs), len(got), len(want[i]))
		}
	}
}
