package disk

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/journal"
)

var someHash = func() (h codec.Hash) {
	for i := range h {
		h[i] = byte(i)
	}
	return h
}()

// someRecords has one of every kind, with its bytes written out.
var someRecords = []struct {
	name string
	in   string
	want record
}{
	{"header", "\x01\x01ABCDEFGHIJKLMNOP\x07\x80\x01", record{kind: headerRecord, version: 1, id: [16]byte([]byte("ABCDEFGHIJKLMNOP")), number: 7, time: 128}},
	{"name of a page", "\x02\x01" + string(someHash[:]), record{kind: nameRecord, key: key{pageKind, someHash}}},
	{"segment", "\x03\x2a\x01", record{kind: segmentRecord, number: 42, queue: protected}},
	{"add", "\x04\x2a\x80\x08" + "\x05\x03\x02" + "\x91\x03abcd" + "\x28efgh" + "\x00\x00\x01" + "\x04ijkl", record{
		kind: addRecord, number: 42, off: 1024,
		rows:   []chunkRow{{5, 3, 2}, {0, 0, 1}},
		pieces: []chunkInfo{{100, 1, 0x64636261}, {10, 0, 0x68676665}, {1, 0, 0x6c6b6a69}},
	}},
	{"drop", "\x05\x00" + string(someHash[:]) + "\x03\x02", record{kind: dropRecord, key: key{chunkKind, someHash}, rows: []chunkRow{{0, 3, 2}}}},
	{"evict", "\x06\x2a", record{kind: evictRecord, number: 42}},
	{"whole", "\x07" + string(someHash[:]) + "\x64\x90\x4eabcd", record{kind: fileRecord, key: key{hash: someHash}, size: 100, time: 10000, crc: 0x64636261}},
	{"whole and touched", "\x07" + string(someHash[:]) + "\x64\x90\x4eabcd\xe9\x07", record{kind: fileRecord, key: key{hash: someHash}, size: 100, time: 10000, crc: 0x64636261, ctime: 1001}},
	{"forget", "\x08" + string(someHash[:]), record{kind: forgetRecord, key: key{hash: someHash}}},
	{"end", "\x09", record{kind: endRecord}},
	{"close", "\x0a", record{kind: closeRecord}},
}

func TestDecodeRecord(t *testing.T) {
	for _, tt := range someRecords {
		t.Run(tt.name, func(t *testing.T) {
			var got record
			if err := got.decode([]byte(tt.in)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
			if again := got.append(nil); string(again) != tt.in {
				t.Errorf("encoded again: % x", again)
			}
		})
	}
}

func TestDecodeRecordRefuses(t *testing.T) {
	hash := string(someHash[:])
	tests := []struct{ name, in, reason string }{
		{"nothing", "", "ends after 0 bytes, 1 more are missing"},
		{"kind 0", "\x00", "kind 0 is not known"},
		{"kind of the future", "\x0b", "kind 11 is not known"},
		{"more than there should be", "\x09\x00", "1 bytes are left over"},
		{"cut hash", "\x08" + hash[:31], "ends after 32 bytes, 1 more are missing"},
		{"unknown kind of object", "\x02\x02" + hash, "kind of object 2 is not known"},
		{"unknown queue", "\x03\x2a\x02", "queue 2 is not known"},
		{"number that is cut", "\x06\x80", "no number"},
		{"number with a needless byte", "\x06\x80\x00", "no number"},
		{"segment of 33 bits", "\x06\x80\x80\x80\x80\x10", "segment 4294967296 is out of range"},
		{"offset of 1 GiB", "\x04\x01\x80\x80\x80\x80\x04\x00\x00\x01\x04abcd", "offset 1073741824 is out of range"},
		{"add without rows", "\x04\x01\x00", "no number"},
		{"row of no chunks", "\x04\x01\x00\x00\x00\x00", "0 chunks from 0 on"},
		{"more chunks than a xorb has", "\x04\x01\x00\x00\x01\x80\x40", "8192 chunks from 1 on"},
		{"more chunks than bytes", "\x04\x01\x00\x00\x00\x80\x40abcdefgh", "8192 chunks, 8 bytes are left"},
		{"chunk of no bytes", "\x04\x01\x00\x00\x00\x01\x03abcd", "a chunk of no bytes"},
		{"chunks behind the end of a segment", "\x04\x01\xff\xff\xff\xff\x01\x00\x00\x01\x04abcd", "chunks end at byte 536870912 of a segment, 536870911 is the most"},
		{"file of 2^62 bytes", "\x07" + hash + "\x80\x80\x80\x80\x80\x80\x80\x80\x40\x01abcd", "size 4611686018427387904 is out of range"},
		{"file touched at no time", "\x07" + hash + "\x64\x01abcd\x00", "touched at no time"},
		{"more than a file has", "\x07" + hash + "\x64\x01abcd\x01\x00", "1 bytes are left over"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r record
			err := r.decode([]byte(tt.in))
			var corrupt *codec.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Reason != tt.reason {
				t.Errorf("error = %v, want %q", err, tt.reason)
			}
		})
	}
}

// FuzzDecodeRecord holds the decoder to two promises: it never panics, and it accepts
// only what the encoder would write, byte for byte.
func FuzzDecodeRecord(f *testing.F) {
	for _, tt := range someRecords {
		f.Add([]byte(tt.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var r record
		if err := r.decode(in); err != nil {
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("error %v is not an ErrCorrupt", err)
			}
			return
		}
		if out := r.append(nil); !bytes.Equal(out, in) {
			t.Errorf("decoded and encoded again: % x, was % x", out, in)
		}
	})
}

// journalOf returns a journal of records.
func journalOf(t testing.TB, records ...[]byte) []byte {
	var b bytes.Buffer
	w := journal.NewWriter(&b, 0)
	for _, r := range records {
		if _, _, err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// FuzzReplay reads any records as an index. What comes out of it must be consistent, and
// be the same after it was written and read again.
func FuzzReplay(f *testing.F) {
	var all []string
	for _, i := range []int{1, 1, 1, 1, 1, 1, 2, 3, 6, 7, 9, 4} {
		all = append(all, someRecords[i].in)
	}
	f.Add([]byte(strings.Join(all, "\xff\xfe")))
	f.Fuzz(func(t *testing.T, in []byte) {
		records := [][]byte{(&record{kind: headerRecord, version: 1}).append(nil)}
		records = append(records, bytes.Split(in, []byte("\xff\xfe"))...)
		d := newSimDisk()
		d.names["index"] = &simFile{data: journalOf(t, records...)}
		open, err := (&simFolder{simDisk: d}).Open("index", false)
		if err != nil {
			t.Fatal(err)
		}
		r, err := replayLog(open, [16]byte{}, 1)
		if err != nil {
			return
		}
		checkIndex(t, r.index)
	})
}

// checkIndex fails if the counts of an index are not those of what can be found in it.
func checkIndex(t testing.TB, x *index) {
	t.Helper()
	chunks, live := 0, make(map[uint32]int64)
	for _, parts := range x.all() {
		for _, p := range parts {
			chunks += p.chunks.Len()
			live[p.segment.number] += p.size
		}
	}
	if chunks != x.chunks {
		t.Errorf("%d chunks are counted, %d are there", x.chunks, chunks)
	}
	for number, s := range x.segments {
		if s.live != live[number] {
			t.Errorf("segment %d: %d bytes are counted, %d are there", number, s.live, live[number])
		}
		alive := 0
		x.alive(s, func(id uint32, e extent) { alive += int(s.bytes(e.at, int(e.n))) })
		if int64(alive) != s.live {
			t.Errorf("segment %d: %d bytes by its own table, %d by the index", number, alive, s.live)
		}
	}
	for k, id := range x.ids {
		if x.objects[id].key != k || len(x.objects[id].leaves) == 0 {
			t.Errorf("object %d is not what its name says", id)
		}
	}
}

// TestIndexAgainstAMap does random things to an index and to a plain map.
func TestIndexAgainstAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := newIndex()
	type place struct{ segment, at uint32 }
	model := make(map[key]map[uint32]place)
	for i := range 3000 {
		k := key{chunkKind, hashOf(rng.IntN(4))}
		start := uint32(rng.IntN(700))
		r := chunks(start, start+1+uint32(rng.IntN(200)))
		switch rng.IntN(8) {
		case 0:
			x.drop(k, r)
			for c := r.Start; c < r.End; c++ {
				delete(model[k], c)
			}
		case 1:
			number := uint32(rng.IntN(i + 1))
			if s := x.segments[number]; s != nil {
				x.remove(s)
			}
			for _, chunks := range model {
				for c, p := range chunks {
					if p.segment == number {
						delete(chunks, c)
					}
				}
			}
		default:
			s := &segment{number: uint32(i)}
			x.segments[s.number] = s
			at := s.extend(int64(rng.IntN(2)*100), make([]chunkInfo, r.Len()))
			x.add(x.object(k), r.Start, s, at, r.Len())
			if model[k] == nil {
				model[k] = make(map[uint32]place)
			}
			for c := r.Start; c < r.End; c++ {
				model[k][c] = place{s.number, at + c - r.Start}
			}
		}
	}
	checkIndex(t, x)
	for n := range 4 {
		k := key{chunkKind, hashOf(n)}
		for c := range uint32(1000) {
			want, there := model[k][c]
			var got place
			parts := x.find(k, chunks(c, c+1), nil)
			if len(parts) == 1 {
				got = place{parts[0].segment.number, parts[0].at}
			}
			if (len(parts) == 1) != there || got != want {
				t.Fatalf("chunk %d of object %d: %v, want %v", c, n, got, want)
			}
		}
	}
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
			if got := newLoad(b, 1).present(); got != want || x.chunks != y.chunks {
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
	var kinds []recordKind
	for {
		rec, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, recordKind(rec[0]))
	}
	want := []recordKind{headerRecord, endRecord, segmentRecord, nameRecord, addRecord, closeRecord}
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
