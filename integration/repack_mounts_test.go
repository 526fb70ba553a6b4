package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

const (
	repackedFiles = 60
	repackedSize  = 300 << 10 // bytes of each file
)

// repackedPath returns the path of a file of TestRepackMounts.
func repackedPath(file int) string { return fmt.Sprintf("dir%d/f%03d", file%7, file) }

// repackedContent returns the content of a file in a version. A version changes a tenth of the
// files of the version before.
func repackedContent(file, version int) []byte {
	changed := 0
	for n := 1; n <= version; n++ {
		if n%10 == file%10 {
			changed = n
		}
	}
	return harness.Noise(uint64(1+file*1000+changed), repackedSize)
}

// Mounts read all the time while the store is repacked and swept: followed ones, an old version, an
// identity and a snapshot. They see no error and no wrong byte, with and without a disk cache.
func TestRepackMounts(t *testing.T) {
	t.Parallel() // it waits for the time of grace
	harness.NeedFuse(t)
	rounds, pause := 2, 50*time.Millisecond // leaves the processors to other tests
	if *fullSize {
		rounds, pause = 10, 0
	}
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	newCatalog(t, store)
	publish := func(version int) harness.Published {
		for i := range repackedFiles {
			if version == 0 || version%10 == i%10 {
				harness.WriteFile(t, filepath.Join(folder, repackedPath(i)), repackedContent(i, version))
			}
		}
		return harness.Publish(t, store, "m", folder)
	}
	xetfs := func(args ...string) { harness.Run(t, "", harness.Program(t), args...) }
	for i := range 7 {
		if err := os.MkdirAll(filepath.Join(folder, fmt.Sprintf("dir%d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	padding := filepath.Join(folder, "padding") // unused data beside the other files from the beginning on
	harness.WriteFile(t, padding, harness.Noise(99, 1<<20))
	publish(0)
	if err := os.Remove(padding); err != nil {
		t.Fatal(err)
	}
	first := publish(0)
	xetfs("snapshot", "create", store, "first", "m")
	remote := harness.ServeRemote(t, store).URL
	tls := newTLSServer(t)
	secure := tls.start(t, "", proxyTo(strings.TrimSuffix(remote, "/")))
	var newest atomic.Int64 // the last version that may be visible
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for _, tt := range []struct {
		name   string
		in     string // folder of the tree in the mount
		source string
		flags  []string
		moves  bool
	}{
		{"follows a folder", "", store, []string{"--symbol=m", "--follow=200ms", "--cache-dir=off"}, true},
		{"follows a server", "m", secure, []string{"--follow=200ms"}, true},
		{"a version of a server", "", secure, []string{"--symbol=m@1", "--cache-dir=off"}, false},
		{"an identity of a server", "", remote, []string{"--symbol=m@ver:" + first.Root}, false},
		{"a snapshot of a folder", "m", store, []string{"--snapshot=first", "--cache-dir=off"}, false},
		{"a snapshot of a server", "m", remote, []string{"--snapshot=first"}, false},
	} {
		m := mountTrusting(t, tls.authority, tt.source, append(tt.flags, "--memory=16MiB")...)
		r := &repackReader{t: t, name: tt.name, root: m.Path(tt.in), pause: pause, last: func() int { return 0 }}
		if tt.moves {
			r.last = func() int { return int(newest.Load()) }
		}
		r.open()
		readers.Go(func() { r.run(ctx) })
	}
	unread := harness.MountSource(t, store, "--snapshot=first", "--cache-dir=off")
	for n := range rounds {
		newest.Store(int64(n) + 1)
		publish(n + 1)
		xetfs("prune", "--keep-last=1", "--keep-snapshots", store, "m")
		xetfs("catalog", "repack", "--max-unused=0%", store)
		time.Sleep(2 * time.Second) // the time of grace, and the followers switch
		xetfs("catalog", "sweep", store)
		time.Sleep(time.Second) // reads without what was swept
	}
	stop()
	readers.Wait()
	last := &repackReader{t: t, name: "a snapshot that was not read before", root: unread.Path("m"), last: func() int { return 0 }}
	for i := range repackedFiles {
		last.whole(i)
	}
	xetfs("catalog", "check", "--data", store)
}

// mountTrusting mounts a source. It trusts the servers of a test authority.
func mountTrusting(t *testing.T, authority, source string, flags ...string) *harness.Mount {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(harness.Program(t), harness.MountArgs(source, dir, flags...)...)
	cmd.Env = []string{"SSL_CERT_FILE=" + authority}
	return harness.MountCommand(t, cmd, source, dir)
}

// A repackReader reads files of one tree of a mount.
type repackReader struct {
	t     *testing.T
	name  string
	root  string
	pause time.Duration // after each round of reads
	last  func() int    // newest version that may be visible
	held  []*os.File    // of version 0
	reads int
}

// open opens some files, which stay open.
func (r *repackReader) open() {
	for i := range 10 {
		f, err := os.Open(filepath.Join(r.root, repackedPath(i)))
		if err != nil {
			r.t.Fatalf("%s: %v", r.name, err)
		}
		r.held = append(r.held, f)
	}
}

// run reads until ctx ends, past the page cache of the kernel.
func (r *repackReader) run(ctx context.Context) {
	dice := rand.New(rand.NewPCG(1, uint64(len(r.name))))
	for ctx.Err() == nil && !r.t.Failed() {
		i := dice.IntN(len(r.held))
		r.part(r.held[i], i, dice.Int64N(repackedSize-4096))
		r.whole(dice.IntN(repackedFiles))
		if _, err := os.ReadDir(filepath.Join(r.root, fmt.Sprintf("dir%d", dice.IntN(7)))); err != nil {
			r.t.Errorf("%s: %v", r.name, err)
		}
		r.reads++
		time.Sleep(r.pause)
	}
	for _, f := range r.held {
		f.Close()
	}
	r.t.Logf("%s: %d rounds of reads", r.name, r.reads)
}

// part reads a part of a file that is open since the beginning.
func (r *repackReader) part(f *os.File, file int, off int64) {
	forget(f)
	got := make([]byte, 4096)
	if _, err := f.ReadAt(got, off); err != nil {
		r.t.Errorf("%s: held file: %v", r.name, err)
	} else if !bytes.Equal(got, repackedContent(file, 0)[off:off+4096]) {
		r.t.Errorf("%s: held file %d has wrong bytes", r.name, file)
	}
}

// whole reads a file. Its content is that of one of the visible versions.
func (r *repackReader) whole(file int) {
	f, err := os.Open(filepath.Join(r.root, repackedPath(file)))
	if err != nil {
		r.t.Errorf("%s: %v", r.name, err)
		return
	}
	defer f.Close()
	forget(f)
	got, err := io.ReadAll(f)
	if err != nil {
		r.t.Errorf("%s: %v", r.name, err)
		return
	}
	for version := r.last(); version >= 0; version-- {
		if bytes.Equal(got, repackedContent(file, version)) {
			return
		}
	}
	r.t.Errorf("%s: file %d has wrong bytes", r.name, file)
}

// forget makes the kernel drop its pages of a file.
func forget(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
