package wal

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
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
	want Record
}{
	{"header", "\x01\x01ABCDEFGHIJKLMNOP\x07\x80\x01", Record{Kind: HeaderRecord, Version: 1, ID: [16]byte([]byte("ABCDEFGHIJKLMNOP")), Number: 7, Time: 128}},
	{"name of a page", "\x02\x01" + string(someHash[:]), Record{Kind: NameRecord, Key: index.PageKey(someHash)}},
	{"segment", "\x03\x2a\x01", Record{Kind: SegmentRecord, Number: 42, Queue: index.Protected}},
	{"add", "\x04\x2a\x80\x08" + "\x05\x03\x02" + "\x91\x03abcd" + "\x28efgh" + "\x00\x00\x01" + "\x04ijkl", Record{
		Kind: AddRecord, Number: 42, Off: 1024,
		Rows:  []index.Row{{Ref: 5, First: 3, N: 2}, {N: 1}},
		Infos: []index.ChunkInfo{{Size: 100, Uses: 1, CRC: 0x64636261}, {Size: 10, CRC: 0x68676665}, {Size: 1, CRC: 0x6c6b6a69}},
	}},
	{"drop", "\x05\x00" + string(someHash[:]) + "\x03\x02", Record{Kind: DropRecord, Key: index.XorbKey(someHash), Rows: []index.Row{{First: 3, N: 2}}}},
	{"evict", "\x06\x2a", Record{Kind: EvictRecord, Number: 42}},
	{"whole", "\x07" + string(someHash[:]) + "\x64\x90\x4eabcd", Record{Kind: FileRecord, Key: index.Key{Hash: someHash}, Size: 100, Time: 10000, CRC: 0x64636261}},
	{"whole and touched", "\x07" + string(someHash[:]) + "\x64\x90\x4eabcd\xe9\x07", Record{Kind: FileRecord, Key: index.Key{Hash: someHash}, Size: 100, Time: 10000, CRC: 0x64636261, CTime: 1001}},
	{"forget", "\x08" + string(someHash[:]), Record{Kind: ForgetRecord, Key: index.Key{Hash: someHash}}},
	{"end", "\x09", Record{Kind: EndRecord}},
	{"close", "\x0a", Record{Kind: CloseRecord}},
}

func TestDecodeRecord(t *testing.T) {
	for _, tt := range someRecords {
		t.Run(tt.name, func(t *testing.T) {
			var got Record
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
			var r Record
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
		var r Record
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

// FuzzReplay reads any records as an index. The index must be consistent.
func FuzzReplay(f *testing.F) {
	var all []string
	for _, i := range []int{1, 1, 1, 1, 1, 1, 2, 3, 6, 7, 9, 4} {
		all = append(all, someRecords[i].in)
	}
	f.Add([]byte(strings.Join(all, "\xff\xfe")))
	f.Fuzz(func(t *testing.T, in []byte) {
		records := [][]byte{(&Record{Kind: HeaderRecord, Version: 1}).append(nil)}
		records = append(records, bytes.Split(in, []byte("\xff\xfe"))...)
		b := journalOf(t, records...)
		r, err := replay(bytes.NewReader(b), int64(len(b)), [16]byte{}, 1)
		if err != nil {
			return
		}
		if err := r.Index.CheckInvariants(); err != nil {
			t.Error(err)
		}
	})
}
