package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec/journal"
)

// This file computes the bytes of LevelDB from its documentation alone, without codec/journal.

// The lengths of the log format.
const (
	levelBlock  = 32 << 10
	levelHeader = 7
)

// An entry is a key that is put, or removed where the value is nil.
type entry struct {
	key   string
	value []byte
}

func put(key string, value []byte) entry { return entry{key, append([]byte{}, value...)} }

func remove(key string) entry { return entry{key, nil} }

// letters returns n bytes that are not all the same.
func letters(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + i*i%25)
	}
	return b
}

// encodeBatch encodes a write batch:
//
//	offset  size  field
//	     0     8  sequence number of the first entry, little-endian
//	     8     4  number of entries, little-endian
//	    12     …  entries: kind (1 put, 0 removed), key and, if put, value, each behind its
//	              length as a varint
func encodeBatch(seq uint64, batch []entry) []byte {
	b := binary.LittleEndian.AppendUint64(nil, seq)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(batch)))
	for _, e := range batch {
		kind := byte(1)
		if e.value == nil {
			kind = 0
		}
		b = append(b, kind)
		b = append(binary.AppendUvarint(b, uint64(len(e.key))), e.key...)
		if e.value != nil {
			b = append(binary.AppendUvarint(b, uint64(len(e.value))), e.value...)
		}
	}
	return b
}

// A history is what is written into one log. The zero value is that of a new database.
type history struct {
	seq     uint64 // of the last entry
	records []written
}

// A written is one batch, and the record that it becomes.
type written struct {
	batch      []entry
	bytes      []byte
	start, end int // in the log
}

func (h *history) end() int {
	if len(h.records) == 0 {
		return 0
	}
	return h.records[len(h.records)-1].end
}

func (h *history) write(batch ...entry) {
	w := written{batch: batch, bytes: encodeBatch(h.seq+1, batch)}
	w.start, w.end = place(h.end(), len(w.bytes))
	h.records = append(h.records, w)
	h.seq += uint64(len(batch))
}

// place says where a record of n bytes begins and ends that is appended to a log of end
// bytes.
func place(end, n int) (int, int) {
	if left := levelBlock - end%levelBlock; left < levelHeader {
		end += left
	}
	start := end
	for {
		part := min(n, levelBlock-end%levelBlock-levelHeader)
		end, n = end+levelHeader+part, n-part
		if n == 0 {
			return start, end
		}
	}
}

// fill writes a batch that leaves left bytes of a block.
func (h *history) fill(t *testing.T, left int) {
	t.Helper()
	key := fmt.Sprint("leaves ", left)
	short := len(encodeBatch(0, []entry{put(key, nil)})) - 1 // without the length of the value
	for n := range 2 * levelBlock {
		size := short + len(binary.AppendUvarint(nil, uint64(n))) + n
		if _, end := place(h.end(), size); (end+left)%levelBlock == 0 {
			h.write(put(key, letters(n)))
			return
		}
	}
	t.Fatalf("nothing leaves %d bytes behind %d", left, h.end())
}

// hardCases writes batches of one and of many entries, and records that end and begin at
// every place that is special.
func (h *history) hardCases(t *testing.T) {
	t.Helper()
	h.write(put("key", []byte("value")))
	h.write()
	h.write(put("", nil))
	h.write(put("empty", nil), put("zeros", make([]byte, 1000)), remove("key"), remove("never there"))
	var many []entry
	for i := range 1000 {
		many = append(many, put(fmt.Sprint("many ", i), fmt.Append(nil, "value ", i)))
		if i%3 == 0 {
			many = append(many, remove(fmt.Sprint("many ", i/2)))
		}
	}
	h.write(many...)
	h.write(put("two blocks", letters(40_000)))
	h.write(put("four blocks", letters(100_000)), put("and one more", nil))
	h.write(put("hundreds of blocks", letters(700_000)))
	for left := range 9 {
		h.fill(t, left)
		h.write(remove("short"))
		h.fill(t, left)
		h.write(put("long", letters(levelBlock+left)))
	}
	h.write(put("last", []byte("value")))
}

// journal returns the log as codec/journal writes it.
func (h *history) journal(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := journal.NewWriter(&b, 0)
	for _, record := range h.records {
		if _, _, err := w.Append(record.bytes); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// A listed is what inspect --json prints of a log.
type listed struct {
	Format string
	Size   int
	Events []event
	Prefix prefix
}

type event struct {
	Record *record
	Drop   *drop
}

type record struct {
	Offset, Len int
	SHA256      string
}

type drop struct {
	Bytes int
	Why   string
}

type prefix struct {
	Records  int
	ValidEnd int `json:"valid_end"`
	Tail     string
}

func recordAt(off int, b []byte) event {
	sum := sha256.Sum256(b)
	return event{Record: &record{off, len(b), hex.EncodeToString(sum[:])}}
}

// seen returns the expected listing of the first size bytes of the log.
func (h *history) seen(size int) listed {
	l := listed{Format: "leveldb-log", Size: size, Events: []event{}, Prefix: prefix{Tail: "clean"}}
	next := 0 // where the first record begins that is not whole
	for _, w := range h.records {
		next = w.start
		if w.end > size {
			break
		}
		l.Events = append(l.Events, recordAt(w.start, w.bytes))
		l.Prefix.Records, l.Prefix.ValidEnd = l.Prefix.Records+1, w.end
	}
	if l.Prefix.Records < len(h.records) && size > next {
		l.Prefix.Tail = "torn"
	}
	return l
}

// cuts returns sizes to which a log can be cut: at and around the ends of records and blocks,
// and anywhere.
func (h *history) cuts() []int {
	sizes := []int{0, h.end()}
	around := func(off int) {
		for _, d := range []int{-1, 0, 1, 4, 6, 7, 8, 20} {
			sizes = append(sizes, off+d)
		}
	}
	for _, w := range h.records {
		around(w.start)
		around(w.end)
	}
	for off := levelBlock; off < h.end(); off += levelBlock {
		around(off)
	}
	for off := 0; off < h.end(); off += 9973 {
		sizes = append(sizes, off)
	}
	slices.Sort(sizes)
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n < 0 || n > h.end() })
	return slices.Compact(sizes)
}

// content returns what is in a new database after the records among events.
func (h *history) content(events []event) map[string][]byte {
	there := map[int]bool{}
	for _, e := range events {
		if e.Record != nil {
			there[e.Record.Offset] = true
		}
	}
	content := map[string][]byte{}
	for _, w := range h.records {
		if !there[w.start] {
			continue
		}
		for _, e := range w.batch {
			if content[e.key] = e.value; e.value == nil {
				delete(content, e.key)
			}
		}
	}
	return content
}

// fullFragments walks over a log of one block, and yields where fragments begin and what
// is in them.
func fullFragments(t *testing.T, b []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for off := 0; off < len(b); {
			if len(b) > levelBlock || len(b)-off < levelHeader || b[off+6] != 1 {
				t.Fatalf("byte %d of %d: not a whole record", off, len(b))
			}
			start := off + levelHeader
			end := start + int(binary.LittleEndian.Uint16(b[off+4:]))
			if end > len(b) {
				t.Fatalf("byte %d of %d: torn", off, len(b))
			}
			if !yield(off, b[start:end]) {
				return
			}
			off = end
		}
	}
}

// An edit is what is compared of a record of a MANIFEST.
type edit struct {
	comparator     string
	log            int // the number in the name of the log
	added, removed []int
}

// decodeEdit decodes a record of a MANIFEST: fields behind their tags, of varints and of
// strings behind their lengths.
func decodeEdit(t *testing.T, b []byte) (e edit) {
	t.Helper()
	number := func() int {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatalf("no number in % x", b)
		}
		b = b[n:]
		return int(v)
	}
	text := func() string {
		n := number()
		if n > len(b) {
			t.Fatalf("no %d bytes in % x", n, b)
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	for len(b) > 0 {
		switch tag := number(); tag {
		case 1:
			e.comparator = text()
		case 2:
			e.log = number()
		case 3, 4, 9: // the next file, the last sequence number, the log before
			number()
		case 5: // where to compact next: level, key
			number()
			text()
		case 6: // level, file
			number()
			e.removed = append(e.removed, number())
		case 7: // level, file, its size, its smallest and largest key
			number()
			e.added = append(e.added, number())
			number()
			text()
			text()
		default:
			t.Fatalf("tag %d", tag)
		}
	}
	return e
}
