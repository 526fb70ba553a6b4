package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// wantEIO reads a whole file of a mount, which must not succeed.
func wantEIO(t *testing.T, m *harness.Mount, hash fmt.Stringer) {
	t.Helper()
	var err error
	within(t, "reading damage", func() { _, err = os.ReadFile(m.File(hash)) })
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("file %s: %v, want EIO", hash, err)
	}
}

// damage turns one bit of a file over and returns what undoes it.
func damage(t *testing.T, path string, off int64) (repair func()) {
	t.Helper()
	flip := func() {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, off); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x10
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	return flip
}

// onlyXorb is the path of the one xorb of a store.
func onlyXorb(t *testing.T, s *harness.Store) (string, codec.Hash) {
	t.Helper()
	if len(s.Info) != 1 {
		t.Fatalf("the store has %d xorbs, want 1", len(s.Info))
	}
	for h := range s.Info {
		return s.XorbPath(h), h
	}
	return "", codec.Hash{}
}

// A damaged shard is left out and named in the log; the mount still works.
func TestBareDamagedShard(t *testing.T) {
	dir := t.TempDir()
	good, bad := harness.Noise(1, 300_000), harness.Noise(2, 300_000)
	_, goods := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, good)
	s := harness.NewStore(dir, harness.StoreOptions{})
	lost, err := s.Add(bytes.NewReader(bad), xorb.None)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.ShardPath(h), 300); err != nil {
		t.Fatal(err)
	}
	m := harness.MountSource(t, dir)
	wantFile(t, m, goods[0], good)
	if _, err := os.Stat(m.File(lost.Hash)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of the damaged shard: %v, want that it is not there", err)
	}
	lines := m.Log.After(func(l harness.Line) bool { return l.Text("what") == "shard" })
	if len(lines) != 1 || lines[0].Text("shard") != h.String() || !strings.Contains(lines[0].Text("err"), "at byte") {
		t.Errorf("the log has %v, want one line with shard %s and the place", lines, h)
	}
}

// A file whose xorb is absent is EIO, not ENOENT; the others do not suffer.
func TestBareAbsentXorb(t *testing.T) {
	dir := t.TempDir()
	a, b := harness.Noise(1, 300_000), harness.Noise(2, 300_000)
	s, stored := harness.StoreFiles(t, dir, harness.StoreOptions{XorbChunks: 5}, xorb.None, a, b)
	absent := stored[0].Info.Terms[0].Xorb
	if err := os.Remove(s.XorbPath(absent)); err != nil {
		t.Fatal(err)
	}
	m := harness.MountSource(t, dir)
	for range 3 {
		wantEIO(t, m, stored[0].Hash)
	}
	wantFile(t, m, stored[1], b)
	lines := m.Log.After(harness.Warnings)
	if len(lines) != 1 {
		t.Fatalf("%d warnings, want 1 (I11):\n%s", len(lines), m.Log)
	}
	if l := lines[0]; l.Text("event") != "origin_gave_up" || l.Text("xorb") != absent.String() || l.Text("file") != stored[0].Hash.String() {
		t.Errorf("the line is %v, want one that names the file and xorb %s", l, absent)
	}
	if cause := xattr(t, m.File(stored[0].Hash), "user.xet.error"); !strings.Contains(cause, absent.String()) {
		t.Errorf("user.xet.error is %q, want the xorb in it", cause)
	}
}

// The sound copy of two copies of a xorb is used, in either order.
func TestBareDamagedCopy(t *testing.T) {
	content := harness.Noise(1, 1_000_000)
	for _, bad := range []string{"a", "b"} {
		t.Run("copy "+bad+" is bad", func(t *testing.T) {
			dir := t.TempDir()
			s, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, content)
			path, _ := onlyXorb(t, s)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, copy := range []string{"a", "b"} {
				to := filepath.Join(dir, copy, filepath.Base(path))
				if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			damage(t, filepath.Join(dir, bad, filepath.Base(path)), 300_000)
			wantFile(t, harness.MountSource(t, dir), stored[0], content)
		})
	}
}

// A flipped bit of a chunk is EIO and one line that names shard, xorb and chunk. Other chunks
// stay readable. Once the xorb is repaired, the file is right again.
func TestBareCorruptChunk(t *testing.T) {
	for _, o := range []struct {
		name    string
		options harness.StoreOptions
		scheme  xorb.Scheme
	}{
		{"footer", harness.StoreOptions{NoCASInfo: true}, xorb.None},
		{"CAS Info", harness.StoreOptions{NoFooter: true}, xorb.None},
		{"packed", harness.StoreOptions{}, xorb.LZ4},
		{"grouped", harness.StoreOptions{}, xorb.ByteGrouping4LZ4},
	} {
		t.Run(o.name, func(t *testing.T) {
			dir := t.TempDir()
			content := text(t, 1, 20*64<<10)
			s, stored := harness.StoreFiles(t, dir, o.options, o.scheme, content)
			path, hash := onlyXorb(t, s)
			const chunk = 13
			start := int64(s.Info[hash].PackedEnd[chunk-1])
			repair := damage(t, path, start+5000)
			m := harness.MountSource(t, dir)
			checkCorrupt(t, m, stored[0], content, chunk)
			checkCorruptLine(t, m, stored[0], hash, chunk)
			repair()
			deadline := time.Now().Add(harness.Patience) // I8
			for time.Now().Before(deadline) {
				if _, err := os.ReadFile(m.File(stored[0].Hash)); err == nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			wantFile(t, m, stored[0], content)
		})
	}
}

// checkCorrupt reads every chunk of a file of which one is damaged.
func checkCorrupt(t *testing.T, m *harness.Mount, file harness.Stored, content []byte, bad int64) {
	t.Helper()
	f, err := os.OpenFile(m.File(file.Hash), os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t, f, bytes.NewReader(content))
	for i := range file.Size / (64 << 10) {
		// O_DIRECT wants a buffer that begins with a page.
		_, err := r.check(make([]byte, 64<<10), i*64<<10, fmt.Sprintf("chunk %d", i), func(p []byte) (int, error) {
			return directRead(f, p, i*64<<10)
		})
		switch {
		case i == bad && !errors.Is(err, syscall.EIO):
			t.Errorf("the damaged chunk: %v, want EIO", err)
		case i != bad && err != nil && !errors.Is(err, io.EOF):
			t.Errorf("chunk %d: %v", i, err)
		}
	}
	wantEIO(t, m, file.Hash)
}

func checkCorruptLine(t *testing.T, m *harness.Mount, file harness.Stored, hash codec.Hash, chunk int) {
	t.Helper()
	lines := m.Log.After(harness.Warnings)
	if len(lines) != 1 {
		t.Fatalf("%d warnings, want 1 (I11):\n%s", len(lines), m.Log)
	}
	shards := namesIn(t, m.Path("shards"))
	l := lines[0]
	if l.Text("event") != "corrupt" || l.Text("what") != "chunk" || l.Text("xorb") != hash.String() || l.Text("file") != file.Hash.String() {
		t.Errorf("the line is %v, want event corrupt, what chunk, xorb %s, file %s", l, hash, file.Hash)
	}
	if l.Text("shard") != shards[0] {
		t.Errorf("the line says shard %q, want %s", l.Text("shard"), shards[0])
	}
	if l.Text("chunk") != fmt.Sprint(chunk) && !strings.Contains(l.Text("err"), fmt.Sprintf("chunk %d:", chunk)) {
		t.Errorf("the line does not name chunk %d: %v", chunk, l)
	}
}
