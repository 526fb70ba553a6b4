package disk

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunReturnsWhatWasPut(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 10, 20)
	b.put(1, 20, 25)
	b.put(1, 30, 31)
	b.put(2, 0, 3)
	tests := []struct {
		name       string
		xorb       int
		start, end uint32
		want       int
	}{
		{"one chunk", 1, 12, 13, 1},
		{"all", 1, 10, 20, 10},
		{"over the border of two runs", 1, 15, 23, 8},
		{"more than there is", 1, 15, 40, 10},
		{"before the first", 1, 9, 12, 0},
		{"in a gap", 1, 25, 31, 0},
		{"behind a gap", 1, 30, 40, 1},
		{"another xorb", 2, 0, 8000, 3},
		{"a xorb that is not there", 3, 0, 1, 0},
	}
	check := func(t *testing.T, b *fixture) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) { b.want(tt.xorb, tt.start, tt.end, tt.want) })
		}
	}
	check(t, b)
	t.Run("opened again", func(t *testing.T) { check(t, b.again()) })
}

func TestRunReadsNoMoreThanItReturns(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 0, 20)
	requested := 0
	run, ok := b.RunIn(hashOf(1), chunks(7, 8), RunOptions{Buffer: func(n int) []byte {
		requested += n
		return make([]byte, n)
	}})
	if want := len(chunkOf(1, 7, chunkSize)); !ok || requested != want || len(run.Packed) != want {
		t.Errorf("%d bytes were read for a chunk of %d", requested, want)
	}
}

func TestMissing(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 10, 20)
	b.put(1, 250, 260) // in two leaves
	tests := []struct {
		name string
		in   codec.ChunkRange
		want []codec.ChunkRange
	}{
		{"all there", chunks(12, 20), nil},
		{"around", chunks(5, 25), []codec.ChunkRange{chunks(5, 10), chunks(20, 25)}},
		{"between", chunks(15, 255), []codec.ChunkRange{chunks(20, 250)}},
		{"nothing there", chunks(300, 8192), []codec.ChunkRange{chunks(300, 8192)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := b.Missing(hashOf(1), tt.in); !slices.Equal(got, tt.want) {
				t.Errorf("Missing(%s) = %v, want %v", tt.in, got, tt.want)
			}
		})
	}
}

func TestPutRunStoresOnlyWhatIsMissing(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 10, 20)
	b.put(1, 5, 30)
	if got, want := b.Stats().WrittenBytes, int64(len(packedOf(1, chunks(5, 30), chunkSize))); got != want {
		t.Errorf("%d bytes were written for %d bytes of chunks", got, want)
	}
	b.want(1, 5, 30, 25)
}

// TestPutRunReplacesOtherBytes puts other bytes of chunks that are stored. The former ones are found
// until the new ones are written.
func TestPutRunReplacesOtherBytes(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	b.writerSeals()
	before := b.onlySegment()
	put := func(n int, r codec.ChunkRange) {
		t.Helper()
		if err := b.putRun(hashOf(1), runOf(t, n, r, chunkSize)); err != nil {
			t.Fatal(err)
		}
		b.flush()
	}
	wantParts := func(parts ...[]byte) {
		t.Helper()
		run, ok := b.Run(hashOf(1), chunks(0, 20))
		if !ok || !bytes.Equal(run.Packed, bytes.Join(parts, nil)) {
			t.Error("other chunks are found")
		}
	}
	first, others, last := packedOf(1, chunks(0, 5), chunkSize), packedOf(2, chunks(5, 10), chunkSize), packedOf(1, chunks(10, 20), chunkSize)
	b.disk.setFault(on("write", "seg/", unix.EIO))
	put(2, chunks(5, 10))
	b.disk.setFault(nil)
	wantParts(first, packedOf(1, chunks(5, 10), chunkSize), last)
	put(2, chunks(5, 10))
	wantParts(first, others, last)
	b = b.again()
	wantParts(first, others, last)
	if err := b.Store.disk.Load().index.CheckInvariants(); err != nil {
		t.Error(err)
	}
	put(3, chunks(0, 20))
	wantParts(packedOf(3, chunks(0, 20), chunkSize))
	if b.disk.there(before) {
		t.Error("a segment stays although all its chunks are replaced")
	}
}

func TestDrop(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	b.Drop(hashOf(1), chunks(5, 7))
	b.want(1, 0, 20, 5)
	b.want(1, 7, 20, 13)
	b.flush()
	b = b.again()
	b.want(1, 0, 20, 5)
	b.put(1, 0, 20)
	b.want(1, 0, 20, 20)
}

func TestPage(t *testing.T) {
	b := open(t, newSimDisk())
	for n := range 20 {
		if err := b.PutPage(hashOf(n), pageOf(n)); err != nil {
			t.Fatal(err)
		}
	}
	b.flush()
	b = b.again()
	for n := range 20 {
		if got, ok := b.Page(hashOf(n)); !ok || !bytes.Equal(got, pageOf(n)) {
			t.Errorf("page %d: %d bytes, %t", n, len(got), ok)
		}
	}
	if _, ok := b.Page(hashOf(20)); ok {
		t.Error("a page that was never put")
	}
	b.want(3, 0, 1, 0) // a xorb of the hash of a page is something else
	b.DropPage(hashOf(3))
	if _, ok := b.Page(hashOf(3)); ok {
		t.Error("a page that was dropped")
	}
}

// A page is read, dropped and replaced while its put still waits in the queue, as if it were stored.
func TestQueuedPage(t *testing.T) {
	b := open(t, newSimDisk())
	started, resume := make(chan struct{}), make(chan struct{})
	b.writer.Load().later(func() { close(started); <-resume })
	<-started
	put := func(n int, value string) {
		t.Helper()
		if err := b.PutPage(hashOf(n), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	put(1, "old")
	put(2, "old")
	b.ForgetPage(hashOf(1))
	b.ForgetPage(hashOf(2))
	put(2, "new")
	want := func() {
		t.Helper()
		if got, ok := b.Page(hashOf(1)); ok {
			t.Errorf("page 1 is %q, want none", got)
		}
		if got, _ := b.Page(hashOf(2)); string(got) != "new" {
			t.Errorf("page 2 is %q, want the new one", got)
		}
	}
	want()
	close(resume)
	b.flush()
	b.pages.Range(func(k, _ any) bool {
		t.Errorf("page %v is still queued", k)
		return true
	})
	for range 2 {
		want()
		b = b.again()
	}
}

func TestWhole(t *testing.T) {
	b := open(t, newSimDisk())
	b.keepFile(1)
	if !b.hasFile(1) || b.hasFile(2) {
		t.Error("not the files that were put")
	}
	b = b.again()
	if !b.hasFile(1) || b.Stats().WholeBytes != index.OnDisk(int64(len(fileOf(1)))) {
		t.Error("gone after opening again")
	}
	b.dropFile(hashOf(1))
	b.flush()
	if b.hasFile(1) || b.Stats().WholeBytes != 0 {
		t.Errorf("dropped, and there; %d bytes", b.Stats().WholeBytes)
	}
}

func TestPutFileKeepsNothingThatIsWrong(t *testing.T) {
	bad := errors.New("its hash is another")
	tests := []struct {
		name    string
		size    int64
		content io.Reader
		want    error
	}{
		{"too short", 11, bytes.NewReader(make([]byte, 10)), nil},
		{"too long", 9, bytes.NewReader(make([]byte, 10)), nil},
		{"not what the hash says", 10, io.MultiReader(bytes.NewReader(make([]byte, 10)), errReader{bad}), bad},
		{"larger than the cache", 1 << 30, bytes.NewReader(make([]byte, 10)), ErrFull},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := open(t, newSimDisk())
			err := b.PutFile(hashOf(1), tt.size, tt.content)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if s := b.Stats(); b.HasFile(hashOf(1)) || s.WholeBytes != 0 || s.Wholes != 0 {
				t.Errorf("something of it is there: %+v", s)
			}
		})
	}
}

type errReader struct{ err error }

func (f errReader) Read([]byte) (int, error) { return 0, f.err }

func TestPutFileReadsNothingTwice(t *testing.T) {
	b := open(t, newSimDisk())
	b.keepFile(1)
	if err := b.PutFile(hashOf(1), 5, errReader{errors.New("it was read")}); err != nil {
		t.Error(err)
	}
}

// TestWholeInUse fills the cache while a file is open. The file stays, and its bytes count until
// it is closed, even after a drop.
func TestWholeInUse(t *testing.T) {
	b := open(t, newSimDisk(), func(o *Options) { o.MaxBytes = 256 << 10 })
	b.keepFile(1)
	f := b.openFile(1)
	for n := range 50 {
		b.put(n, 0, 100)
	}
	if !b.hasFile(1) {
		t.Error("evicted under its reader")
	}
	b.dropFile(hashOf(1))
	b.flush()
	if got := b.Stats().WholeBytes; got != index.OnDisk(int64(len(fileOf(1)))) {
		t.Errorf("%d bytes are counted while it is open", got)
	}
	f.Close()
	f.Close()
	b.flush()
	if got := b.Stats().WholeBytes; got != 0 {
		t.Errorf("%d bytes are counted when it is closed", got)
	}
}

// TestTooLargeTakesNothing requests more room than there can be while a file is open.
func TestTooLargeTakesNothing(t *testing.T) {
	b := open(t, newSimDisk(), func(o *Options) { o.MaxBytes = 256 << 10 })
	big := make([]byte, 120<<10)
	if err := b.PutFile(hashOf(1), int64(len(big)), bytes.NewReader(big)); err != nil {
		t.Fatal(err)
	}
	b.openFile(1)
	b.put(1, 0, 60)
	if err := b.PutFile(hashOf(2), int64(len(big)), bytes.NewReader(big)); !errors.Is(err, ErrFull) {
		t.Errorf("error = %v, want ErrFull", err)
	}
	b.want(1, 0, 60, 60)
}

func TestEntriesVerifyClear(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 300)
	b.put(2, 5, 10)
	if err := errors.Join(b.PutPage(hashOf(3), pageOf(3)), b.putFile(4)); err != nil {
		t.Fatal(err)
	}
	b.flush()
	seen := make(map[Entry]int)
	for e := range b.Entries() {
		seen[e]++
	}
	want := []Entry{
		{"xorb", hashOf(1), 300, int64(len(packedOf(1, chunks(0, 300), chunkSize)))},
		{"xorb", hashOf(2), 5, int64(len(packedOf(2, chunks(5, 10), chunkSize)))},
		{"page", hashOf(3), 1, int64(len(pageOf(3)))},
		{"file", hashOf(4), 1, int64(len(fileOf(4)))},
	}
	for _, e := range want {
		if seen[e] != 1 {
			t.Errorf("%v is there %d times in %v", e, seen[e], seen)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d entries, want %d", len(seen), len(want))
	}
	report := func(e Entry, err error) { t.Errorf("%s: %v", e, err) }
	if n, err := b.Verify(t.Context(), report); n != 4 || err != nil {
		t.Errorf("Verify = %d, %v", n, err)
	}
	if err := b.Clear(); err != nil {
		t.Fatal(err)
	}
	if s := b.Stats(); s.Chunks != 0 || s.Wholes != 0 || s.SegmentBytes != 0 || s.WholeBytes != 0 {
		t.Errorf("cleared, and there is: %+v", s)
	}
	b.put(1, 0, 10)
	b.want(1, 0, 10, 10)
}

func TestVerifyFindsEveryDamagedChunk(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	b.keepFile(2)
	b.disk.mu.Lock()
	for name, f := range b.disk.names {
		if len(f.data) > 0 && (name == "seg/00000001" || name == index.FileName(hashOf(2))) {
			f.data[0] ^= 1
			f.data[len(f.data)-1] ^= 1
		}
	}
	b.disk.mu.Unlock()
	var found []string
	if _, err := b.Verify(t.Context(), func(e Entry, err error) { found = append(found, e.String()) }); err != nil {
		t.Fatal(err)
	}
	x := Entry{Kind: "xorb", Hash: hashOf(1)}.String()
	if want := []string{x, x, "file " + hashOf(2).String()}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	b.want(1, 0, 20, 0)
	b.want(1, 1, 20, 18)
	if b.HasFile(hashOf(2)) {
		t.Error("a damaged file is kept")
	}
}

func TestTrim(t *testing.T) {
	b := open(t, newSimDisk())
	for n := range 20 {
		b.put(n, 0, 60)
	}
	if err := b.Trim(200 << 10); err != nil {
		t.Fatal(err)
	}
	if got := b.Stats().Bytes; got > 200<<10 || got < 100<<10 {
		t.Errorf("%d bytes are left", got)
	}
}

// TestPutRunNoCopy checks that release is called once, when the chunks can be found or are
// forgotten. A refused run is not released.
func TestPutRunNoCopy(t *testing.T) {
	b := open(t, newSimDisk(), func(o *Options) { o.QueueBytes = 64 << 10 })
	var lent, freed atomic.Int64
	for n := range 300 {
		run, seen := runOf(t, n%200, chunks(0, 8), chunkSize), new(atomic.Bool)
		err := b.PutRunNoCopy(hashOf(n%200), run, func() {
			freed.Add(1)
			if seen.Swap(true) {
				t.Errorf("run %d is given back twice", n)
			}
			clear(run.Packed)
		})
		switch {
		case err == nil:
			lent.Add(1)
		case !errors.Is(err, ErrBusy):
			t.Error(err)
		}
	}
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lent.Load() == 0 || lent.Load() != freed.Load() {
		t.Errorf("%d runs were lent, %d given back", lent.Load(), freed.Load())
	}
	for n := range 200 {
		if run, ok := b.Run(hashOf(n), chunks(0, 8)); ok && !bytes.Equal(run.Packed, packedOf(n, run.Chunks, chunkSize)) {
			t.Errorf("run %d has other bytes", n)
		}
	}
	b.Close()
	if err := b.PutRunNoCopy(hashOf(1), runOf(t, 1, chunks(0, 1), chunkSize), func() { t.Error("given back") }); !errors.Is(err, ErrClosed) {
		t.Errorf("PutRunNoCopy of a closed store = %v", err)
	}
}

// TestTrimLargerThanASegment throws away chunks in use that were kept when segments were larger.
func TestTrimLargerThanASegment(t *testing.T) {
	b := open(t, newSimDisk(), func(o *Options) { o.testing.segment = 64 << 10 })
	for n := range 2 {
		if err := b.PutPage(hashOf(n), make([]byte, 30<<10)); err != nil {
			t.Fatal(err)
		}
	}
	b.flush()
	for range 3 {
		if _, ok := b.Page(hashOf(0)); !ok {
			t.Error("a page is missing")
		}
	}
	if err := b.rotate(); err != nil { // which notes that it is in use
		t.Fatal(err)
	}
	b = b.again()
	if err := b.Trim(1); err != nil {
		t.Error(err)
	}
	b.put(1, 0, 20)
	b.want(1, 0, 20, 20)
}

// TestTrimTakesNoMoreThanItMust finds that what is to be deleted anyway is enough.
func TestTrimTakesNoMoreThanItMust(t *testing.T) {
	b := open(t, newSimDisk())
	for n := range 5 {
		b.put(n, 0, 30)
	}
	before := b.Stats()
	k := b.writer.Load()
	err := k.do(func() error {
		f, err := k.d.Create("seg/00000099")
		if err != nil {
			return err
		}
		k.orphans = append(k.orphans, orphan{name: "seg/00000099", size: 8 << 10, sort: &k.s.stats.segmentBytes})
		k.s.stats.use(8<<10, &k.s.stats.segmentBytes)
		k.shrink(before.Bytes)
		return f.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := b.Stats(); after.Chunks != before.Chunks || after.Bytes != before.Bytes {
		t.Errorf("%d chunks in %d bytes, were %d in %d", after.Chunks, after.Bytes, before.Chunks, before.Bytes)
	}
}

// A disk that does not answer is no damage, and one that never does ends it.
func TestVerifyOfASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		b := open(t, d)
		b.put(1, 0, 20)
		release := make(chan struct{})
		defer close(release)
		d.setFault(func(op, _ string) error {
			if op == "read" {
				<-release
			}
			return nil
		})
		_, err := b.Verify(t.Context(), func(e Entry, err error) { t.Errorf("%v: %v", e, err) })
		if !errors.Is(err, errTimeout) {
			t.Errorf("error = %v, want %v", err, errTimeout)
		}
	})
}

// TestWholeReadBehindItsEnd reads where there is nothing, which is no fault of the file.
func TestWholeReadBehindItsEnd(t *testing.T) {
	b := open(t, newSimDisk())
	b.keepFile(1)
	f := b.openFile(1)
	for _, behind := range []int64{0, 1, 1 << 20} {
		if n, err := f.ReadAt(make([]byte, 10), f.w.Size+behind); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%d behind the end: %d bytes, %v", behind, n, err)
		}
	}
	if !b.HasFile(hashOf(1)) || b.saw(EventDropped) > 0 {
		t.Errorf("it is forgotten; %v", b.events)
	}
}
