package disk

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
)

// A file that cannot be deleted is counted as long as it exists, and deleted when that works
// again, without another start.
func TestCannotBeDeleted(t *testing.T) {
	for _, tt := range []struct {
		name   string // of the file
		remove func(b *fixture) error
	}{
		{"seg/00000001", func(b *fixture) error {
			k := b.writer.Load()
			return k.do(func() error { k.remove(k.d.index.Segment(1)); return nil })
		}},
		{index.FileName(hashOf(1)), func(b *fixture) error { b.dropFile(hashOf(1)); return nil }},
		{"index-000001.log", (*fixture).rotate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newSimDisk()
			b := open(t, d)
			b.putThree()
			d.cannotDelete(tt.name)
			if err := tt.remove(b); err != nil {
				t.Fatal(err)
			}
			b.wantCounted(t)
			if err := b.rotate(); err != nil { // which tries it again
				t.Fatal(err)
			}
			b.wantCounted(t)
			if !d.there(tt.name) {
				t.Fatal("it is deleted, though it cannot be")
			}
			d.setFault(nil)
			for range 2 {
				if err := b.rotate(); err != nil {
					t.Fatal(err)
				}
				b.wantCounted(t)
			}
			if d.there(tt.name) {
				t.Error("it is there for ever")
			}
			if s := b.Stats(); s.State != "ok" || b.saw(EventSuspended) > 0 {
				t.Errorf("%s; %v", s.State, b.events)
			}
		})
	}
}

// TestWholeCannotBeDeleted checks that a file is not written again before the rest of the former
// one is deleted. A later deletion would hit the new file.
func TestWholeCannotBeDeleted(t *testing.T) {
	for name, left := range map[string]string{"the file": index.FileName(hashOf(1)), "the temporary file": tmpFileName(hashOf(1))} {
		t.Run(name, func(t *testing.T) {
			d := newSimDisk()
			b := open(t, d)
			d.cannotDelete(left)
			if left == index.FileName(hashOf(1)) {
				b.keepFile(1)
				b.dropFile(hashOf(1))
			} else if err := b.PutFile(hashOf(1), 5, strings.NewReader("four")); err == nil {
				t.Error("a file that is too short is kept")
			}
			if err := b.putFile(1); err == nil {
				t.Error("it is stored beside the old file")
			}
			b.wantCounted(t)
			d.setFault(nil)
			b.keepFile(1)
			for range 2 {
				if err := b.rotate(); err != nil {
					t.Fatal(err)
				}
			}
			b.wantCounted(t)
			if !b.hasFile(1) || !d.there(index.FileName(hashOf(1))) {
				t.Error("it is not kept")
			}
		})
	}
}

// TestUnsyncedWholeCannotBeDeleted fails to sync the name of a whole file, and then to delete the file. It
// counts until it is deleted.
func TestUnsyncedWholeCannotBeDeleted(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 0, 10)
	d.cannotDelete(index.FileName(hashOf(1)))
	d.addFault(on("syncdir", "whole", unix.EIO))
	if err := b.putFile(1); err == nil {
		t.Error("a file is stored whose name may be lost")
	}
	if !d.there(index.FileName(hashOf(1))) {
		t.Fatal("it is deleted, though it cannot be")
	}
	b.wantCounted(t)
	d.setFault(nil)
	if err := b.rotate(); err != nil {
		t.Fatal(err)
	}
	if d.there(index.FileName(hashOf(1))) {
		t.Error("it stays")
	}
	b.wantCounted(t)
	b.keepFile(1)
	b.wantCounted(t)
}

// TestD14_NoID loses the id of the cache, which FORMAT and the journal have. All files are deleted,
// and counted once.
func TestD14_NoID(t *testing.T) {
	b := open(t, newSimDisk())
	b.putThree()
	b.Close()
	d := b.disk.killed()
	delete(d.names, formatName)
	d.names[b.onlyLog()].data[0] ^= 1
	b = open(t, d)
	until(t, "all of it is deleted", func() bool {
		return !d.there("seg/00000001") && !d.there(index.FileName(hashOf(1))) && !d.there("index-000001.log")
	})
	b.wantCounted(t)
	b.put(1, 0, 25)
	b.wantCounted(t)
}

// TestD14_NoFormat loses FORMAT alone. Nothing is deleted, because the journal has the id.
func TestD14_NoFormat(t *testing.T) {
	b := open(t, newSimDisk())
	b.putThree()
	b.Close()
	d := b.disk.killed()
	delete(d.names, formatName)
	for range 2 {
		s := open(t, d)
		for n := range 3 {
			s.want(n, 0, 25, 25)
			if !s.hasFile(n) {
				t.Errorf("file %d is lost", n)
			}
		}
		s.wantCounted(t)
		s.Close()
	}
}

// wantCounted fails unless just what is on disk is counted.
func (b *fixture) wantCounted(t *testing.T) {
	t.Helper()
	b.flush()
	if got, want := b.Stats().Bytes, b.disk.bytes(); got != want {
		t.Errorf("%d bytes are counted, %d are on disk", got, want)
	}
}

func (b *fixture) rotate() error {
	k := b.writer.Load()
	return k.do(k.rotate)
}

// cannotDelete keeps a file from being deleted.
func (d *simDisk) cannotDelete(name string) {
	d.setFault(func(op, of string) error {
		if op == "remove" && of == name && d.there(name) {
			return unix.EPERM
		}
		return nil
	})
}
