package origin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// sinkFiles are some files that have parts in common, each of which becomes a xorb and a
// shard of its own.
func sinkFiles() [][]byte {
	a, b := origintest.Random(1, 60_000), origintest.Random(2, 60_000)
	return [][]byte{a, bytes.Join([][]byte{a, b}, nil), b, origintest.Text(3, 20_000), nil}
}

// packSession packs files into a store, each into a shard, with what the store has.
func packSession(t *testing.T, s origin.WriteStore, files [][]byte) error {
	t.Helper()
	k, err := dedup.Open(t.Context(), s, dedup.Options{})
	if err != nil {
		return err
	}
	defer k.Close()
	w := pack.NewWriter(origin.Sink(s), pack.Options{Known: k, FlushBytes: 1})
	for _, data := range files {
		if err = w.AddFile(t.Context(), bytes.NewReader(data)); err == nil {
			err = w.Flush(t.Context())
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, w.Close(t.Context()))
}

// checkWhole checks that every object of a store is sound, and that no shard names a xorb
// that is not there.
func checkWhole(t *testing.T, s origin.Store) {
	t.Helper()
	for item, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		key, err := names.ParseKey(item.Key)
		if err != nil {
			t.Errorf("%s: %v", item.Key, err)
			continue
		}
		r := origin.ReaderAt(t.Context(), s, item.Key)
		if strings.HasPrefix(string(item.Key), names.XorbPrefix) {
			if in, err := xorb.Check(r, item.Size, func(err error) { t.Errorf("%s: %v", item.Key, err) }); err != nil || in.Root() != key.Hash {
				t.Errorf("%s: %v", item.Key, err)
			}
			continue
		}
		one, err := shard.NewReader(r, item.Size)
		if err != nil {
			t.Errorf("%s: %v", item.Key, err)
			continue
		}
		for f, err := range one.Files() {
			if err != nil {
				t.Errorf("%s: %v", item.Key, err)
				continue
			}
			for _, term := range f.Terms {
				if _, err := s.Size(t.Context(), names.XorbKey(term.Xorb)); err != nil {
					t.Errorf("%s: file %s: %v", item.Key, f.File, err)
				}
			}
		}
	}
}

// O30: a packer dies at any call to the store, before or after its effect. It leaves only whole
// objects, and the next packer completes.
func TestO30_SinkCrashes(t *testing.T) {
	files := sinkFiles()
	for _, applied := range []bool{false, true} {
		for at := 1; ; at++ {
			s := origintest.Memory()
			f := origintest.WithFaults(s)
			f.CrashAt, f.Applied = at, applied
			err := packSession(t, f, files)
			if f.Crashed() != errors.Is(err, origintest.ErrCrashed) {
				t.Errorf("crashed at %d: the packer says %v", at, err)
			}
			checkWhole(t, s)
			if err := packSession(t, s, files); err != nil {
				t.Errorf("after a crash at %d: %v", at, err)
			}
			origintest.CheckFiles(t, objects.New(s, objects.Options{}), files...)
			if !f.Crashed() {
				if at < 12 {
					t.Errorf("only %d calls", at)
				}
				break
			}
		}
	}
}

// O30: answers of the store get lost, whether it did what it was asked or not.
func TestO30_SinkUnknown(t *testing.T) {
	files := sinkFiles()
	completed := 0
	for seed := range uint64(20) {
		s := origintest.Memory()
		f := origintest.WithFaults(s)
		f.Lost, f.Vanished, f.Seed = 0.2, 0.2, seed
		err := packSession(t, f, files)
		switch {
		case err == nil:
			completed++
			origintest.CheckFiles(t, objects.New(s, objects.Options{}), files...)
		case !errors.Is(err, origin.ErrUnknown):
			t.Errorf("seed %d: %v", seed, err)
		}
		checkWhole(t, s)
	}
	if completed < 2 || completed == 20 {
		t.Errorf("%d of 20 completed", completed)
	}
}

// A store that cannot be read while it is packed into costs space, and nothing else.
func TestSinkUnreadable(t *testing.T) {
	files := sinkFiles()
	s := origintest.Memory()
	if err := packSession(t, s, files[:2]); err != nil {
		t.Fatal(err)
	}
	k, err := dedup.Open(t.Context(), s, dedup.Options{Sink: refusing(s, "Size", "ReadAt")})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	w := pack.NewWriter(origin.Sink(s), pack.Options{Known: k, FlushBytes: 1})
	for _, data := range append(files, files...) {
		if err := w.AddFile(t.Context(), bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, s)
	origintest.CheckFiles(t, objects.New(s, objects.Options{}), files...)
}

// refusing is a store that some methods of cannot be used.
func refusing(s origin.WriteStore, ops ...string) *origintest.Faults {
	f := origintest.WithFaults(s)
	f.Before = func(_ context.Context, c origintest.Call) error {
		for _, op := range ops {
			if c.Op == op {
				return fmt.Errorf("%s: %w", c.Key, origin.ErrUnavailable)
			}
		}
		return nil
	}
	return f
}

// The names of the xorbs are durable before their shard gets its name. The name of the shard is
// durable when PutShard returns.
func TestSinkOrder(t *testing.T) {
	var mu sync.Mutex
	pending := map[names.Key]bool{} // not durable; guarded by mu
	shards := 0                     // guarded by mu
	f := origintest.WithFaults(origintest.Memory())
	f.Before = func(_ context.Context, c origintest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		switch c.Op {
		case "Sync":
			clear(pending)
		case "PutIfAbsent":
			if strings.HasPrefix(string(c.Key), names.ShardPrefix) {
				shards++
				if len(pending) > 0 {
					t.Errorf("shard %s is put while these are not durable: %v", c.Key, pending)
				}
			}
			pending[c.Key] = true
		}
		return nil
	}
	w := pack.NewWriter(origin.Sink(f), pack.Options{FlushBytes: 1, Done: func(pack.File) {
		mu.Lock()
		defer mu.Unlock()
		if len(pending) > 0 {
			t.Errorf("a file is told of while these are not durable: %v", pending)
		}
	}})
	for _, data := range sinkFiles() {
		if err := w.AddFile(t.Context(), bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shards == 0 {
		t.Error("no shard is put")
	}
}

// O30: an object is never deleted to be replaced. A damaged object stays if it cannot be
// replaced, because parts of it may be readable. An object that cannot be read does not count
// as damaged.
func TestO30_SinkCannotReplace(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 3000), origintest.Text(2, 3000))
	damaged := flipped(x.Bytes, 20)
	tests := []struct {
		name string
		ops  []string // that fail
		fail bool
		want []byte
	}{
		{"it can", nil, false, x.Bytes},
		{"a full disk", []string{"PutIfMatch"}, true, damaged},
		{"its size cannot be read", []string{"Size"}, true, damaged},
		{"it cannot be read", []string{"ReadAt"}, true, damaged},
		{"it cannot be read as a whole", []string{"Get"}, true, damaged},
		{"it cannot be read at all", []string{"Get", "ReadAt", "Size"}, true, damaged},
		{"objects cannot be deleted", []string{"Delete"}, false, x.Bytes},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := origintest.Memory()
			if _, err := s.PutIfAbsent(t.Context(), x.Key(), damaged); err != nil {
				t.Fatal(err)
			}
			err := origin.Sink(refusing(s, tt.ops...)).PutXorb(t.Context(), x.Info, bytes.Clone(x.Bytes[:x.Info.PackedEnd[1]]))
			if (err != nil) != tt.fail {
				t.Errorf("PutXorb = %v", err)
			}
			if got := origintest.Get(t, s, x.Key()); !bytes.Equal(got, tt.want) {
				t.Error("it is not what it should be")
			}
		})
	}
}

// Two sessions find the same damaged object at once. The second finds a replaced or missing
// object, and leaves a good one.
func TestSinkReplacedByOthers(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 3000), origintest.Text(2, 3000))
	for _, tt := range []struct {
		name  string
		other func(s origin.WriteStore) error
	}{
		{"replaced", func(s origin.WriteStore) error { return origintest.Replace(s, x.Key(), x.Bytes) }},
		{"removed", func(s origin.WriteStore) error { return s.Delete(context.Background(), x.Key()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := origintest.Memory()
			if _, err := s.PutIfAbsent(t.Context(), x.Key(), flipped(x.Bytes, 20)); err != nil {
				t.Fatal(err)
			}
			f := origintest.WithFaults(s)
			f.Before = func(_ context.Context, c origintest.Call) error {
				if c.Op == "PutIfMatch" {
					return tt.other(s)
				}
				return nil
			}
			if err := origin.Sink(f).PutXorb(t.Context(), x.Info, bytes.Clone(x.Bytes[:x.Info.PackedEnd[1]])); err != nil {
				t.Errorf("PutXorb = %v", err)
			}
			if got := origintest.Get(t, s, x.Key()); !bytes.Equal(got, x.Bytes) {
				t.Error("it is not what it should be")
			}
		})
	}
}

// A disk that gets full ends the session, and what is on it is whole. With more room the
// next one completes.
func TestSinkDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small tmpfs")
	}
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=1200k"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var files [][]byte
	for i := range uint64(10) {
		files = append(files, origintest.Random(i, 300_000))
	}
	err = packSession(t, s, files)
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("full disk: %v", err)
	}
	checkWhole(t, s)
	if err := unix.Mount("", root, "", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if err := packSession(t, s, files); err != nil {
		t.Errorf("with more room: %v", err)
	}
	checkWhole(t, s)
	origintest.CheckFiles(t, objects.New(s, objects.Options{}), files...)
}

// A Sink leaves what is sound, and replaces what is damaged and would be pointed to.
func TestSinkDamaged(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 3000), origintest.Text(2, 3000))
	other := origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{xorb.None}}).Xorb(x.Chunks...)
	tests := []struct {
		name  string
		there []byte
		want  []byte
	}{
		{"nothing", nil, x.Bytes},
		{"the same", x.Bytes, x.Bytes},
		{"packed by others", other.Bytes, other.Bytes},
		{"without footer", x.Bytes[:x.Info.PackedEnd[1]], x.Bytes[:x.Info.PackedEnd[1]]},
		{"flipped", flipped(x.Bytes, 20), x.Bytes},
		{"cut", x.Bytes[:100], x.Bytes},
		{"empty", []byte{}, x.Bytes},
		{"another xorb", b.Xorb([]byte("other")).Bytes, x.Bytes},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := origintest.Memory()
			if tt.there != nil {
				if _, err := s.PutIfAbsent(t.Context(), x.Key(), tt.there); err != nil {
					t.Fatal(err)
				}
			}
			body := bytes.Clone(x.Bytes[:x.Info.PackedEnd[1]])
			if err := origin.Sink(s).PutXorb(t.Context(), x.Info, body); err != nil {
				t.Fatal(err)
			}
			if got := origintest.Get(t, s, x.Key()); !bytes.Equal(got, tt.want) {
				t.Error("it is not what it should be")
			}
		})
	}
	t.Run("a shard", func(t *testing.T) {
		s := origintest.Memory()
		for range 2 {
			h, err := origin.Sink(s).PutShard(t.Context(), new(shard.Writer))
			if err != nil || merkle.Chunk(origintest.Get(t, s, names.ShardKey(h))) != h {
				t.Errorf("PutShard = %s, %v", h, err)
			}
			origintest.Replace(s, names.ShardKey(h), make([]byte, 344))
		}
	})
}

// flipped returns b with one wrong bit.
func flipped(b []byte, at int) []byte { return codectest.Put(b, at, b[at]^1) }
