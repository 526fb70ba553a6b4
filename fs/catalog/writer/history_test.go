package writer

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// putHistory stores a symbol with a number of versions, one per second, as publishes
// would. Unless whole is set, it omits elements that are never searched: those neither
// full nor the newest.
func putHistory(t *testing.T, s origin.WriteStore, symbol string, versions, block int, whole bool) {
	t.Helper()
	encode := func(doc names.Document) []byte {
		value, err := names.Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	put := func(k names.Key, value []byte) {
		if _, err := s.PutIfAbsent(t.Context(), k, value); err != nil {
			t.Fatal(err)
		}
	}
	var head *names.Version
	var k names.Key
	for i := range versions {
		row := names.Row{Number: uint64(i), Time: mtime.UTC().Add(time.Duration(i) * time.Second), Root: page.Hash{1, byte(i), byte(i >> 8)}, Identity: page.Identity{1, byte(i), byte(i >> 8)}}
		v := &names.Version{Symbol: symbol, Seq: uint64(i + 1), Number: row.Number, Time: row.Time, TxID: fmt.Sprintf("%032x", i)}
		v.Follow(head, k, &row, nil, block)
		if head = v; !whole && len(v.Rows) < block && i < versions-1 {
			k = names.VersionKey(v, nil)
			continue
		}
		value := encode(v)
		k = names.VersionKey(v, value)
		put(k, value)
	}
	put(names.RefKey(symbol), encode(&names.Ref{Symbol: symbol, Seq: head.Seq, Head: k, Latest: &head.Rows[0]}))
}

// Section 15 of catalog.md: each of 10,000 versions is found in fewer than 80 reads of the
// version list. The newest 1 to 128 need one. The reference is one more read, and the only
// one for the newest. 78 elements have 128 rows each, the head has the others.
func TestHistoryReads(t *testing.T) { synctest.Test(t, testHistoryReads) } // a check of the store is valid for a second

func testHistoryReads(t *testing.T) {
	const versions = 10_000
	s := origintest.Memory()
	d := newFixture(t, s)
	putHistory(t, s, "m", versions, names.DefaultSettings("", time.Time{}).Block, false)
	w := origintest.Watch(s)
	ask := func(at string, version uint64, elements int) {
		t.Helper()
		c, err := catalog.Open(t.Context(), w, origin.Pages(w))
		if err != nil {
			t.Fatal(err)
		}
		asOf, err := names.ParseAsOf(at)
		if err != nil {
			t.Fatal(err)
		}
		w.Calls()
		if row, err := c.Resolve(t.Context(), "m", asOf); err != nil || row.Number != version {
			t.Errorf("%q is version %d, %v, want %d", at, row.Number, err, version)
		}
		if n := len(w.Calls()) - 1; n != elements || n >= 80 {
			t.Errorf("%q: %d elements of the version list are read, want %d", at, n, elements)
		}
		if _, err := c.Resolve(t.Context(), "m", asOf); err != nil || len(w.Calls()) != 1 {
			t.Errorf("%q once more: %v, want one read, of the reference", at, err)
		}
	}
	ask("", 9999, 0)
	ask("-1", 9999, 0)
	ask("9998", 9998, 1)
	ask("9984", 9984, 1) // the last row of the head
	ask("9983", 9983, 2)
	ask("-144", 9856, 2)
	ask("5000", 5000, 40)
	ask("0", 0, 79)
	ask("-10000", 0, 79)
	ask("2020-09-13T12:26:40Z", 0, 79) // when version 0 was published
	if err := d.Delete(t.Context(), "m", 9000, 9900); err != nil {
		t.Fatal(err)
	}
	ask("0", 0, 79)
	ask("-9998", 0, 79)
	live := liveOf(t, fresh(t, s), "m")
	if len(live) != versions-2 || slices.Contains(live, 9000) || slices.Contains(live, 9900) {
		t.Errorf("%d live versions", len(live))
	}
}
