package disk

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
)

// TestMinFreeCountsReservations puts chunks while a whole file is being written. They must not
// use the room of the file, although the file system reports it as free.
func TestMinFreeCountsReservations(t *testing.T) {
	const floor, size = 2 << 20, 1 << 20
	dir := cacheDir(t)
	mounted(t, dir, "tmpfs", "mode=0700,size=4m")
	b := openAt(t, dir, func(o *Options) { o.MaxBytes, o.MinFree = 64<<20, floor })
	content := make([]byte, size)
	r := &hookedReader{b: content, hook: func() {
		for n := range 60 {
			_ = b.putRun(hashOf(n), runOf(t, n, chunks(0, 30), 2000))
			b.flush()
		}
	}}
	if err := b.PutFile(hashOf(1), size, r); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < floor {
		t.Errorf("%d bytes are free, want %d", free, floor)
	}
	if err := b.PutFile(hashOf(2), size, iotest.ErrReader(errors.New("broken"))); err == nil {
		t.Error("what cannot be read was kept")
	}
	if n := b.Store.stats.reserved.Load(); n != 0 {
		t.Errorf("%d bytes stay promised", n)
	}
}

// A hookedReader calls hook before its first bytes.
type hookedReader struct {
	b    []byte
	hook func()
}

func (h *hookedReader) Read(p []byte) (int, error) {
	if h.hook != nil {
		h.hook()
		h.hook = nil
	}
	if len(h.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, h.b)
	h.b = h.b[n:]
	return n, nil
}

// TestD07_NothingDeleted cannot delete what it evicts: it gives up, instead of forgetting
// everything for room that never comes.
func TestD07_NothingDeleted(t *testing.T) {
	for _, errno := range []error{unix.EROFS, unix.EDQUOT, unix.ENOSPC, unix.ENOMEM} {
		t.Run(errno.Error(), func(t *testing.T) { nothingDeleted(t, errno) })
	}
}

func nothingDeleted(t *testing.T, errno error) {
	d := newSimDisk()
	b := open(t, d, func(o *Options) { o.MaxBytes = 400 << 10 })
	for n := range 6 {
		b.put(n, 0, 30)
	}
	before := b.Stats().Chunks
	d.setFault(on("remove", "", errno))
	for n := range 30 {
		_ = b.putRun(hashOf(100+n), runOf(t, n, chunks(0, 30), chunkSize))
	}
	_ = b.Flush(t.Context()) // the store may be suspended
	if left := b.Stats().Chunks; left < before/2 || b.saw(EventFull) > 0 || b.saw(EventSuspended) != 1 {
		t.Errorf("%d of %d chunks are left; %v", left, before, b.events)
	}
}

// TestSharedSeesTheOwnerEvict has a shared store meet what its owner has thrown away:
// nothing is damaged, so there is nothing to say.
func TestSharedSeesTheOwnerEvict(t *testing.T) {
	dir := cacheDir(t)
	owner := openAt(t, dir)
	owner.put(1, 0, 30)
	if err := errors.Join(owner.putFile(1), owner.Sync()); err != nil {
		t.Fatal(err)
	}
	share := func(o *Options) { o.Share = true }
	reader, verifier := openAt(t, dir, share), openAt(t, dir, share)
	if err := owner.Clear(); err != nil {
		t.Fatal(err)
	}
	reader.want(1, 0, 30, 0)
	if _, ok := reader.OpenFile(hashOf(1)); ok {
		t.Error("a file that is gone was opened")
	}
	_, err := verifier.Verify(t.Context(), func(e Entry, err error) { t.Errorf("verify: %v: %v", e, err) })
	if err != nil {
		t.Error(err)
	}
	if n := reader.Stats().Dropped; n != 0 || reader.saw(EventDropped) > 0 {
		t.Errorf("%d dropped, %v", n, reader.events)
	}
}

// TestSharedListsWhatIsThere shares a folder of which a whole file is gone that the journal
// names.
func TestSharedListsWhatIsThere(t *testing.T) {
	dir := cacheDir(t)
	owner := openAt(t, dir)
	if err := errors.Join(owner.putFile(1), owner.putFile(2), owner.Sync()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, index.FileName(hashOf(1)))); err != nil {
		t.Fatal(err)
	}
	b := openAt(t, dir, func(o *Options) { o.Share = true })
	if b.HasFile(hashOf(1)) || !b.HasFile(hashOf(2)) {
		t.Error("it has not the one that is there, or the one that is not")
	}
}

// TestWholeChangedWhileOpen writes to an open file. Reads through its handle then fail.
func TestWholeChangedWhileOpen(t *testing.T) {
	dir := cacheDir(t)
	b := openAt(t, dir)
	b.keepFile(1)
	f := b.openFile(1)
	p := make([]byte, 10)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(filepath.Join(dir, index.FileName(hashOf(1))), int64(len(fileOf(1))+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(p, 0); !errors.Is(err, errFileChanged) {
		t.Errorf("error = %v, want %v", err, errFileChanged)
	}
	if b.HasFile(hashOf(1)) || b.saw(EventDropped) != 1 {
		t.Errorf("it is not forgotten; %v", b.events)
	}
}

// TestMinFreeTakesNothing requests more room than the file system has without all of the cache:
// nothing goes for what will not fit.
func TestMinFreeTakesNothing(t *testing.T) {
	d := newSimDisk()
	d.free = 1 << 20
	b := open(t, d, func(o *Options) { o.MaxBytes, o.MinFree = 2<<20, 500<<10 })
	for n := range 10 {
		b.put(n, 0, 30)
	}
	before := b.Stats().Chunks
	err := b.PutFile(hashOf(1), 800<<10, bytes.NewReader(make([]byte, 800<<10)))
	if after := b.Stats().Chunks; !errors.Is(err, ErrFull) || after != before {
		t.Errorf("error %v, and %d of %d chunks are left", err, after, before)
	}
	if err := b.PutFile(hashOf(1), 400<<10, bytes.NewReader(make([]byte, 400<<10))); err != nil {
		t.Errorf("what fits when others have gone: %v", err)
	}
}

// TestTrimCannotDelete forgets no more than what it has tried to delete in vain.
func TestTrimCannotDelete(t *testing.T) {
	d := newSimDisk()
	b := open(t, d, func(o *Options) { o.testing.probe = time.Hour })
	for n := range 20 {
		b.put(n, 0, 30)
	}
	before := b.Stats()
	d.setFault(on("remove", "", unix.EROFS))
	if err := b.Trim(before.Bytes / 2); err == nil {
		t.Error("it says that all is well")
	}
	if after := b.Stats(); after.Chunks < before.Chunks/2 || b.saw(EventSuspended) != 1 {
		t.Errorf("%d of %d chunks are left; %v", after.Chunks, before.Chunks, b.events)
	}
}

// TestD19_DeletedFilesFreeNothing needs a little room while deleted files stay in use. Neither
// repeated checks nor puts empty the cache for it.
func TestD19_DeletedFilesFreeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		d.free = 4 << 20
		b := open(t, d, func(o *Options) { o.MaxBytes, o.MinFree = 2<<20, 1<<20 })
		for n := range 80 {
			b.put(n, 0, 30)
		}
		before := b.Stats()
		d.mu.Lock()
		d.retains = true
		d.free = before.Bytes + 1<<20 - 20<<10 // another program uses the rest
		d.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if after := b.Stats(); after.EvictedBytes == 0 || after.Chunks < before.Chunks/2 {
			t.Errorf("%d of %d chunks are left for 20 KiB, %d bytes were evicted", after.Chunks, before.Chunks, after.EvictedBytes)
		}
		for n := range 20 {
			b.put(100+n, 0, 1)
		}
		if after := b.Stats(); after.Chunks < before.Chunks/2 {
			t.Errorf("%d of %d chunks are left after 20 puts", after.Chunks, before.Chunks)
		}
		d.mu.Lock()
		d.retains, d.held, d.free = false, 0, 4<<20
		d.mu.Unlock()
		time.Sleep(10 * time.Minute)
		wr := b.writer.Load()
		err := wr.do(func() error {
			if pause := wr.space.pause; pause != 5*time.Second {
				t.Errorf("the pause is %v when the room is there", pause)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestD19_SharedReaderHoldsSegments has a second process read the cache: deleted segments stay
// on the disk while it has them open.
func TestD19_SharedReaderHoldsSegments(t *testing.T) {
	dir := cacheDir(t)
	mounted(t, filepath.Dir(dir), "tmpfs", "mode=0700,size=16m")
	needs := func(o *Options) {
		o.MaxBytes, o.MinFree = 8<<20, 4<<20
		o.testing.segment, o.testing.spaceCheck = 256<<10, 100*time.Millisecond
	}
	b := openAt(t, dir, needs)
	for n := range 40 {
		b.put(n, 0, 200)
	}
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	reader := openAt(t, dir, func(o *Options) { o.Share = true })
	for n := range 40 {
		reader.has(n, 0, 200)
	}
	before := b.Stats()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	others, err := os.Create(filepath.Join(filepath.Dir(dir), "others"))
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	if err := unix.Fallocate(int(others.Fd()), 0, 0, int64(st.Bavail)*st.Frsize-4<<20+256<<10); err != nil {
		t.Fatal(err)
	}
	until(t, "room is made", func() bool { return b.Stats().EvictedBytes > before.EvictedBytes })
	b.flush() // the first round has ended
	if after := b.Stats(); after.Chunks < before.Chunks/2 {
		t.Errorf("%d of %d chunks are left for 256 KiB", after.Chunks, before.Chunks)
	}
}
