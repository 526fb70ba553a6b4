package disk

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/journal"
)

// dropped is the number of chunks that putMany drops at its end.
const dropped = 7

// putMany stores chunks, pages and whole files, and drops some of them again. A snapshot precedes
// the last ones.
func (b *fixture) putMany() {
	b.t.Helper()
	for n := range 8 {
		b.put(n, 0, 5)
		b.writerSeals()
		if err := b.PutPage(hashOf(100+n), pageOf(n)); err != nil {
			b.t.Fatal(err)
		}
		b.keepFile(n)
	}
	if err := b.rotate(); err != nil {
		b.t.Fatal(err)
	}
	for n := 8; n < 12; n++ {
		b.put(n, 0, 5)
		b.writerSeals()
	}
	b.Drop(hashOf(1), chunks(0, 5))
	b.Drop(hashOf(9), chunks(3, 5))
	b.flush()
}

// countAll returns how many entries of putMany can be read. It fails if a byte is wrong.
func (b *fixture) countAll() (n int) {
	b.t.Helper()
	for x := range 12 {
		n += b.has(x, 0, 5)
	}
	for x := range 8 {
		page, ok := b.Page(hashOf(100 + x))
		if ok && !bytes.Equal(page, pageOf(x)) {
			b.t.Fatalf("page %d: wrong bytes", x)
		}
		if ok {
			n++
		}
		if b.hasFile(x) {
			n++
		}
	}
	return n
}

// TestD13_EveryBitOfFormat flips each bit of FORMAT. No entry is lost, FORMAT is repaired, and a
// file of others is never touched.
func TestD13_EveryBitOfFormat(t *testing.T) {
	t.Parallel()
	b := open(t, newSimDisk())
	b.putMany()
	all := b.countAll()
	b.Close()
	intact := slices.Clone(b.disk.names[formatName].data)
	step := 1
	if codectest.Race {
		step = 17
	}
	for bit := 0; bit < 8*len(intact); bit += step {
		flip := func(d *simDisk) { d.names[formatName].data[bit/8] ^= 1 << (bit % 8) }
		d := b.disk.killed()
		flip(d)
		s := open(t, d)
		if n := s.countAll(); n != all {
			t.Errorf("bit %d: %d of %d entries are left", bit, n, all)
		}
		repaired := s.saw(EventRebuilt) == 1
		if text := d.content(formatName); repaired && !bytes.Equal(text, intact) {
			t.Errorf("bit %d: FORMAT is %q", bit, text)
		}
		s.Close()

		for _, name := range []string{"thesis.tex", "seg/notes.txt"} {
			d := b.disk.killed()
			flip(d)
			d.names[name] = &simFile{data: []byte("years of work")}
			if s, err := tryOpen(t, d); err == nil {
				s.Close()
			} else if !errors.Is(err, ErrRefused) {
				t.Errorf("bit %d, beside %s: %v", bit, name, err)
			}
			if !d.there(name) {
				t.Errorf("bit %d: %s is deleted", bit, name)
			}
		}
	}
}

// TestD13_EveryByteOfASnapshot damages each byte of a journal that consists of a snapshot and
// changes. The entries before the damage are left, and a copy of the journal stays.
func TestD13_EveryByteOfASnapshot(t *testing.T) {
	t.Parallel()
	b := open(t, newSimDisk())
	b.putMany()
	all := b.countAll()
	b.Close()
	name := b.onlyLog()
	intact := b.disk.names[name].data
	step := 1
	if codectest.Race {
		step = 17
	}
	before := 0
	for off := 0; off < len(intact); off += step {
		d := b.disk.killed()
		d.names[name].data[off] ^= 0x10
		damaged := slices.Clone(d.names[name].data)
		s := open(t, d)
		n := s.countAll()
		if n > all+dropped { // the damage may hide the drop of some chunks
			t.Errorf("byte %d: %d entries, there were %d", off, n, all)
		}
		before = max(before, n)
		if n < before-dropped {
			t.Errorf("byte %d: %d entries, %d with damage before it", off, n, before)
		}
		if kept := d.content(wal.DamagedName); kept != nil && !bytes.Equal(kept, damaged) {
			t.Errorf("byte %d: the copy of the journal differs", off)
		}
		if err := s.Store.disk.Load().index.CheckInvariants(); err != nil {
			t.Errorf("byte %d: %v", off, err)
		}
		s.put(50, 0, 5)
		s = s.again()
		if again := s.countAll(); again != n {
			t.Errorf("byte %d: %d entries, %d after another start", off, n, again)
		}
		s.want(50, 0, 5, 5)
		s.Close()
	}
	if before < all {
		t.Errorf("at most %d of %d entries were left", before, all)
	}
}

// TestD13_DamagedSnapshot damages the end of a snapshot: the entries before it are left.
func TestD13_DamagedSnapshot(t *testing.T) {
	b := open(t, newSimDisk())
	for n := range 20 {
		b.put(n, 0, 10)
	}
	if err := b.rotate(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	s := b.damaged(b.onlyLog(), func(f []byte) []byte { f[len(f)-40] ^= 1; return f })
	found := 0
	for n := range 20 {
		found += s.has(n, 0, 10)
	}
	if found < 150 || s.saw(EventRebuilt) != 1 || !s.disk.there(wal.DamagedName) {
		t.Errorf("%d of 200 chunks, events %v", found, s.events)
	}
}

// TestD05_BadBlock opens folders of which one block cannot be read.
func TestD05_BadBlock(t *testing.T) {
	large := func(o *Options) { o.MaxBytes, o.testing.journal = 1<<30, 1<<20 }
	b := open(t, newSimDisk(), large)
	for n := range 1200 { // more than two blocks of 32 KiB
		b.put(n%40, uint32(n/40*5), uint32(n/40*5+5))
	}
	b.Close()
	all := b.Stats().Chunks
	log := b.onlyLog()
	for _, tt := range []struct {
		name   string
		file   string
		off    int64
		least  int // chunks that are left
		aside  bool
		events int
	}{
		{"FORMAT", formatName, 20, all, false, 1},
		{"first block of the journal", log, 20, 0, true, 1},
		{"second block of the journal", log, 40_000, 100, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := b.disk.killed()
			d.names[tt.file].bad = tt.off
			before := d.content(tt.file)
			s := open(t, d, large)
			if n := s.Stats().Chunks; n < tt.least || n > all || s.saw(EventRebuilt) != tt.events {
				t.Errorf("%d of %d chunks are left, events %v", n, all, s.events)
			}
			if tt.aside && !bytes.Equal(d.content(wal.DamagedName), before) {
				t.Error("the journal is not kept aside")
			}
			s.put(50, 0, 5)
			s = s.again(large)
			s.want(50, 0, 5, 5)
			if s.saw(EventRebuilt) > 0 {
				t.Errorf("again: %v", s.events)
			}
		})
	}
	t.Run("the whole disk", func(t *testing.T) {
		d := b.disk.killed()
		d.setFault(on("read", "", unix.EIO))
		before := d.steps()
		if _, err := tryOpen(t, d, large); !errors.Is(err, unix.EIO) || d.steps() != before {
			t.Errorf("error %v, %d changes", err, d.steps()-before)
		}
	})
}

// TestD26_NewerJournal finds the journal of a newer program, and no FORMAT.
func TestD26_NewerJournal(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	b.Close()
	d := b.disk.killed()
	delete(d.names, formatName)
	var log bytes.Buffer
	header := append([]byte{byte(wal.HeaderRecord), wal.FormatVersion + 1}, make([]byte, 16)...)
	if _, _, err := journal.NewWriter(&log, 0).Append(append(header, 2, 0)); err != nil {
		t.Fatal(err)
	}
	d.names[wal.Name(2)] = &simFile{data: log.Bytes()}
	before := d.steps()
	if _, err := tryOpen(t, d); !errors.Is(err, ErrNewer) || d.steps() != before {
		t.Errorf("error = %v, %d changes", err, d.steps()-before)
	}
}

// TestFormatText writes FORMAT as programs before the fourth line read it.
func TestFormatText(t *testing.T) {
	id := [16]byte{1, 2, 3}
	text := formatText(id)
	if version, got, ok := parseFormat(text); !ok || version != wal.FormatVersion || got != id {
		t.Errorf("parsed as %d, %x, %v: %q", version, got, ok, text)
	}
	const want = "xetfs disk cache\nversion 1\nid 01020300000000000000000000000000\n"
	if version, got, ok := parseFormat(want); text[:len(want)] != want || !ok || version != 1 || got != id {
		t.Errorf("three lines are parsed as %d, %x, %v; written is %q", version, got, ok, text)
	}
}
