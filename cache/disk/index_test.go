package disk

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/journal"
)

func checkIndex(t testing.TB, x *index.Index) {
	t.Helper()
	if err := x.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

func numChunks(x *index.Index) int {
	n, _ := x.Len()
	return n
}

// TestIndexComesBack loads a store and compares its index with what its journal says.
func TestIndexComesBack(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"changes":   func(o *Options) { o.testing.journal = 1 << 30 },
		"snapshots": func(o *Options) { o.testing.journal = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, newSimDisk(), loadOptions, func(o *Options) { o.MaxBytes = 4 << 20 }, change)
			l := newLoad(b, 1)
			for range 1000 {
				l.step()
			}
			want := l.present()
			x := b.Store.disk.Load().index
			checkIndex(t, x)
			b = b.again(loadOptions, func(o *Options) { o.MaxBytes = 4 << 20 }, change)
			y := b.Store.disk.Load().index
			checkIndex(t, y)
			if got := newLoad(b, 1).present(); got != want || numChunks(x) != numChunks(y) {
				t.Errorf("%d of %d things are back", got.count(), want.count())
			}
		})
	}
}

// TestJournalIsALevelDBLog reads the index with nothing but package journal.
func TestJournalIsALevelDBLog(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	b.Close()
	r := journal.NewReader(bytes.NewReader(b.disk.names[b.onlyLog()].data), journal.Options{})
	var kinds []wal.RecordKind
	for {
		rec, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, wal.RecordKind(rec[0]))
	}
	want := []wal.RecordKind{wal.HeaderRecord, wal.EndRecord, wal.SegmentRecord, wal.NameRecord, wal.AddRecord, wal.CloseRecord}
	if _, tail := r.Tail(); tail != journal.Clean || !reflect.DeepEqual(kinds, want) {
		t.Errorf("records %v, then %v", kinds, tail)
	}
}

func TestNothingIsAllocatedForAMiss(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector allocates")
	}
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	x := hashOf(2)
	if n := testing.AllocsPerRun(100, func() { b.RunIn(x, chunks(0, 1), RunOptions{}) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
