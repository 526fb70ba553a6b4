package integration

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var storeFaults = flag.Int("store-faults", 251, "only every Nth fault of a store is tested; 1: each of them")

// A storeFault happens at one system call of a writer in its store.
type storeFault struct {
	kill  bool          // the process, with SIGKILL
	after bool          // the system call is done first
	errno syscall.Errno // else the call fails with this
	stays bool          // so do all later calls of its kind
}

func (f storeFault) String() string {
	switch {
	case f.kill && f.after:
		return "killed after"
	case f.kill:
		return "killed before"
	case f.stays:
		return f.errno.Error() + " from"
	}
	return f.errno.Error() + " at"
}

// A faultyFolder is a folder that is mounted a second time. It counts the system calls that
// reach it and fails one of them.
type faultyFolder struct {
	fuse.RawFileSystem
	fault storeFault
	at    int // number of the call, from 1; 0: none

	mu      sync.Mutex
	calls   []string // kinds, in order; guarded by mu
	kind    string   // of the call that failed; guarded by mu
	removed []string // names outside tmp that were removed; guarded by mu
	running sync.WaitGroup
}

// faultyMount mounts a folder.
func faultyMount(t *testing.T, folder string, f *faultyFolder) (mountpoint string, unmount func()) {
	t.Helper()
	mountpoint = t.TempDir()
	loopback := &fusefs.LoopbackRoot{Path: folder}
	root := &fusefs.LoopbackNode{RootData: loopback}
	loopback.RootNode = root
	f.RawFileSystem = fusefs.NewNodeFS(root, &fusefs.Options{})
	server := serveFuse(t, f, mountpoint, &fuse.MountOptions{
		FsName: folder, Name: "faulty", DirectMountStrict: unix.Geteuid() == 0, DisableReadDirPlus: true,
		Logger: log.New(io.Discard, "", 0), // the unmount ends a read of the device
	})
	return mountpoint, func() {
		f.running.Wait()
		if err := server.Unmount(); err != nil {
			unix.Unmount(mountpoint, unix.MNT_DETACH) //nolint:errcheck // nothing else helps
			t.Fatal(err)
		}
	}
}

// serveFuse serves a file system until it is unmounted. No program that another test starts inherits
// its descriptors: it would keep the mount busy, or look like its server. go-fuse opens /dev/fuse
// without O_CLOEXEC, and WaitMount does that with a file of the mount.
func serveFuse(t testing.TB, raw fuse.RawFileSystem, mountpoint string, o *fuse.MountOptions) *fuse.Server {
	t.Helper()
	if o.DirectMountStrict { // else fusermount3 opens /dev/fuse, and must be started
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	server, err := fuse.NewServer(raw, mountpoint, o)
	if err != nil {
		t.Fatal(err)
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range descriptors {
		if target, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && target == "/dev/fuse" {
			n, _ := strconv.Atoi(d.Name()) // a number
			syscall.CloseOnExec(n)
		}
	}
	go server.Serve() // calls wait until it runs
	return server
}

// call does one system call, or fails it. A process whose call it is may be killed.
func (f *faultyFolder) call(kind string, h *fuse.InHeader, do func() fuse.Status) fuse.Status {
	f.running.Add(1)
	defer f.running.Done()
	f.mu.Lock()
	f.calls = append(f.calls, kind)
	now := len(f.calls) == f.at
	if now {
		f.kind = kind
	}
	fails := f.fault.errno != 0 && (now || f.fault.stays && f.kind == kind)
	f.mu.Unlock()
	switch {
	case fails:
		return fuse.Status(f.fault.errno)
	case !now || !f.fault.kill:
		return do()
	case f.fault.after:
		status := do()
		f.killCaller(h)
		return status
	}
	f.killCaller(h)
	return fuse.EIO
}

func (f *faultyFolder) killCaller(h *fuse.InHeader) {
	if h.Pid > 1 {
		unix.Kill(int(h.Pid), unix.SIGKILL) //nolint:errcheck // the test waits for the process
	}
}

func (f *faultyFolder) noteRemoved(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !inTmp.MatchString(name) {
		f.removed = append(f.removed, name)
	}
}

// inTmp matches what writers make in tmp.
var inTmp = regexp.MustCompile(`^(?:[A-Z2-7]{26}|scratch-[0-9]+)$`)

func (f *faultyFolder) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return f.call("stat", h, func() fuse.Status { return f.RawFileSystem.Lookup(cancel, h, name, out) })
}

func (f *faultyFolder) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return f.call("stat", &in.InHeader, func() fuse.Status { return f.RawFileSystem.GetAttr(cancel, in, out) })
}

func (f *faultyFolder) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.call("mkdir", &in.InHeader, func() fuse.Status { return f.RawFileSystem.Mkdir(cancel, in, name, out) })
}

func (f *faultyFolder) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	f.noteRemoved(name)
	return f.call("unlink", h, func() fuse.Status { return f.RawFileSystem.Unlink(cancel, h, name) })
}

func (f *faultyFolder) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	f.noteRemoved(from)
	return f.call("rename", &in.InHeader, func() fuse.Status { return f.RawFileSystem.Rename(cancel, in, from, to) })
}

func (f *faultyFolder) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.call("link", &in.InHeader, func() fuse.Status { return f.RawFileSystem.Link(cancel, in, name, out) })
}

// Create creates a file that is not written past the page cache: the buffers of FUSE are not
// aligned for that.
func (f *faultyFolder) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	in.Flags &^= unix.O_DIRECT
	return f.call("open", &in.InHeader, func() fuse.Status { return f.RawFileSystem.Create(cancel, in, name, out) })
}

// Open opens a file past the page cache, so that each read comes here.
func (f *faultyFolder) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.call("open", &in.InHeader, func() fuse.Status {
		status := f.RawFileSystem.Open(cancel, in, out)
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO
		return status
	})
}

func (f *faultyFolder) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.call("open", &in.InHeader, func() fuse.Status { return f.RawFileSystem.OpenDir(cancel, in, out) })
}

func (f *faultyFolder) Read(cancel <-chan struct{}, in *fuse.ReadIn, b []byte) (result fuse.ReadResult, status fuse.Status) {
	status = f.call("read", &in.InHeader, func() fuse.Status {
		result, status = f.RawFileSystem.Read(cancel, in, b)
		return status
	})
	return result, status
}

func (f *faultyFolder) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.call("read", &in.InHeader, func() fuse.Status { return f.RawFileSystem.ReadDir(cancel, in, out) })
}

func (f *faultyFolder) Write(cancel <-chan struct{}, in *fuse.WriteIn, b []byte) (n uint32, status fuse.Status) {
	status = f.call("write", &in.InHeader, func() fuse.Status {
		n, status = f.RawFileSystem.Write(cancel, in, b)
		return status
	})
	return n, status
}

func (f *faultyFolder) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return f.call("fsync", &in.InHeader, func() fuse.Status { return f.RawFileSystem.Fsync(cancel, in) })
}

func (f *faultyFolder) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return f.call("fsync", &in.InHeader, func() fuse.Status { return f.RawFileSystem.FsyncDir(cancel, in) })
}

// A storeScene is a command that writes to a store which has a past.
type storeScene struct {
	name    string
	command func(store string) []string
	prepare func(t *testing.T, store string)
	before  map[string][]byte // complete objects of the prepared store, by path
	base    string            // folder of it
}

// storeScenes returns packs and publishes into new stores and into stores with objects. One store
// has a xorb that was cut, so that it is replaced.
func storeScenes(t *testing.T) []*storeScene {
	work := t.TempDir()
	one, two := filepath.Join(work, "one"), filepath.Join(work, "two")
	if err := errors.Join(os.Mkdir(one, 0o755), os.Mkdir(two, 0o755)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		harness.WriteFile(t, filepath.Join(one, fmt.Sprint(i)), harness.Noise(uint64(i), 70_000))
	}
	copyTree(t, one, two)
	harness.WriteFile(t, filepath.Join(two, "one", "1"), harness.Noise(77, 90_000))
	harness.WriteFile(t, filepath.Join(two, "small"), harness.Noise(78, 100))
	packs := func(folder string) func(string) []string {
		return func(store string) []string { return []string{"pack", store, folder} }
	}
	publishes := func(folder string, flags ...string) func(string) []string {
		return func(store string) []string {
			return append([]string{"publish", store, "me/a", folder}, flags...)
		}
	}
	xetfsRun := func(t *testing.T, args []string) { t.Helper(); harness.Run(t, "", harness.Program(t), args...) }
	return []*storeScene{
		{name: "pack, new", command: packs(one), prepare: func(*testing.T, string) {}},
		{name: "pack, more", command: packs(two), prepare: func(t *testing.T, store string) { xetfsRun(t, packs(one)(store)) }},
		{name: "pack, damaged", command: packs(one), prepare: func(t *testing.T, store string) {
			xetfsRun(t, packs(one)(store))
			cutXorb(t, store)
		}},
		{name: "pack, no shard, damaged", command: packs(one), prepare: func(t *testing.T, store string) {
			xetfsRun(t, packs(one)(store))
			removeAll(t, filepath.Join(store, "tdata/shard"))
			changeXorb(t, store, func(f *os.File, size int64) error {
				_, err := f.WriteAt([]byte("damaged"), size-100)
				return err
			})
		}},
		{name: "publish, new", command: publishes(one), prepare: func(*testing.T, string) {}},
		{name: "publish, more", command: publishes(two), prepare: func(t *testing.T, store string) { xetfsRun(t, publishes(one)(store)) }},
		{name: "publish, damaged", command: publishes(one, "--checksum"), prepare: func(t *testing.T, store string) {
			xetfsRun(t, publishes(one)(store))
			cutXorb(t, store)
		}},
	}
}

// cutXorb cuts the only xorb of a store in half.
func cutXorb(t *testing.T, store string) {
	t.Helper()
	changeXorb(t, store, func(f *os.File, size int64) error { return f.Truncate(size / 2) })
}

// changeXorb changes the only xorb of a store.
func changeXorb(t *testing.T, store string, change func(f *os.File, size int64) error) {
	t.Helper()
	xorbs, err := filepath.Glob(filepath.Join(store, "tdata/xorb/*/*.xorb"))
	if err != nil || len(xorbs) != 1 {
		t.Fatalf("%v, %v", xorbs, err)
	}
	err = os.Chmod(xorbs[0], 0o644) //nolint:gosec // it is read-only
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(xorbs[0], os.O_RDWR, 0)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err == nil {
		err = errors.Join(change(f, info.Size()), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// O30: writers are killed before and after each system call in the store. Each call also fails
// with EIO and EMFILE, once or from then on. No object is removed, no complete object is missing
// afterwards, and no shard or version names an object that does not exist. The catalog is sound,
// except that a first publish may lack its reference. The next run of the command completes. A
// run that succeeds beside a fault is complete, too.
func TestO30_StoreFaults(t *testing.T) {
	harness.NeedFuse(t)
	harness.Program(t) // builds it
	t.Parallel()
	faults := []storeFault{
		{kill: true}, {kill: true, after: true},
		{errno: unix.EIO}, {errno: unix.EMFILE}, {errno: unix.EIO, stays: true}, {errno: unix.EMFILE, stays: true},
	}
	number, kills, errnos := 0, 0, map[string]int{}
	for _, scene := range storeScenes(t) {
		t.Run(scene.name, func(t *testing.T) {
			scene.base = filepath.Join(t.TempDir(), "store")
			if err := os.MkdirAll(scene.base, 0o755); err != nil {
				t.Fatal(err)
			}
			scene.prepare(t, scene.base)
			scene.before = completeObjects(t, scene.base)
			f := &faultyFolder{}
			if err := scene.run(t, f); err != nil {
				t.Fatalf("without a fault: %v", err)
			}
			for _, fault := range faults {
				for at := 1; at <= len(f.calls); at++ {
					if number++; number%*storeFaults != 0 {
						continue
					}
					one := &faultyFolder{fault: fault, at: at}
					err := scene.run(t, one)
					if fault.kill && one.kind != "" {
						kills++
					} else if one.kind != "" {
						errnos[one.kind]++
					}
					if t.Failed() {
						t.Fatalf("%v call %d (%s): the command returned %v", fault, at, one.kind, err)
					}
				}
			}
			t.Logf("%d system calls: %v", len(f.calls), count(f.calls))
		})
	}
	t.Logf("%d kills; calls that failed: %v", kills, errnos)
	if kills == 0 || len(errnos) == 0 {
		t.Error("no fault happened")
	}
}

func count(kinds []string) map[string]int {
	n := map[string]int{}
	for _, k := range kinds {
		n[k]++
	}
	return n
}

// run runs the command of a scene in a copy of its store with a fault, then once more without
// one. It returns the error of the first run.
func (s *storeScene) run(t *testing.T, f *faultyFolder) error {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(store, os.DirFS(s.base)); err != nil {
		t.Fatal(err)
	}
	mountpoint, unmount := faultyMount(t, store, f)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Program(t), s.command(mountpoint)...)
	out, err := cmd.CombinedOutput()
	unmount()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Errorf("it did not end: %v", err)
	}
	if len(f.removed) > 0 {
		t.Errorf("it removed %q", f.removed)
	}
	s.check(t, store, err == nil)
	harness.Run(t, "", harness.Program(t), s.command(store)...)
	s.check(t, store, true)
	os.RemoveAll(filepath.Dir(store)) //nolint:errcheck // hundreds of them are large
	return err
}

// check checks a store after a run: complete if the run succeeded.
func (s *storeScene) check(t *testing.T, store string, complete bool) {
	t.Helper()
	for path, want := range s.before {
		if got, err := os.ReadFile(filepath.Join(store, path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s was complete before: %d bytes, %v", path, len(got), err)
		}
	}
	d, err := dir.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	sound, err := soundXorbs(t.Context(), d)
	if err != nil {
		t.Error(err)
	}
	damaged := strings.HasSuffix(s.name, "damaged") && !complete
	for item, err := range d.List(t.Context(), names.ShardPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range termXorbs(t, d, item) {
			if good, ok := sound[k]; !ok || !good && !damaged {
				t.Errorf("%s names %s: it exists: %v, it is sound: %v", item.Key, k, ok, good)
			}
		}
	}
	if _, err := d.Size(t.Context(), names.SettingsKey()); err == nil && !damaged {
		found := func(f sweep.Finding) {
			if complete || !isFirstKilled(f.Err) {
				t.Errorf("catalog: %s: %v", f.Key, f.Err)
			}
		}
		if _, err := sweep.Check(t.Context(), d, origin.Pages(d), sweep.CheckOptions{Data: true, Found: found}); err != nil {
			t.Error(err)
		}
	}
}

// isFirstKilled reports whether a finding may be the version of a first publish that was killed
// before it stored the reference.
func isFirstKilled(err error) bool {
	var lost *sweep.LostRefError
	return errors.As(err, &lost) && lost.Change <= 1
}

// soundXorbs returns the xorbs of a store, and whether they are sound.
func soundXorbs(ctx context.Context, s origin.Store) (map[names.Key]bool, error) {
	sound := map[names.Key]bool{}
	for item, err := range s.List(ctx, names.XorbPrefix, "") {
		if err != nil {
			return nil, err
		}
		faults := 0
		in, err := xorb.Check(origin.ReaderAt(ctx, s, item.Key), item.Size, func(error) { faults++ })
		sound[item.Key] = err == nil && faults == 0 && names.XorbKey(in.Root()) == item.Key
	}
	return sound, nil
}

// termXorbs returns the xorbs of the files of a shard.
func termXorbs(t *testing.T, s origin.Store, item origin.Item) []names.Key {
	t.Helper()
	keys := map[names.Key]bool{}
	r, err := shard.NewReader(origin.ReaderAt(t.Context(), s, item.Key), item.Size)
	if err != nil {
		t.Errorf("%s: %v", item.Key, err)
		return nil
	}
	for f, err := range r.Files() {
		if err != nil {
			t.Errorf("%s: %v", item.Key, err)
			continue
		}
		for _, term := range f.Terms {
			keys[names.XorbKey(term.Xorb)] = true
		}
	}
	return slices.Collect(maps.Keys(keys))
}

// completeObjects returns the objects of a store that nothing may change: all but references,
// the listing, and xorbs that are not sound.
func completeObjects(t *testing.T, store string) map[string][]byte {
	t.Helper()
	d, err := dir.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	sound, err := soundXorbs(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string][]byte{}
	err = fs.WalkDir(os.DirFS(store), ".", func(p string, e fs.DirEntry, err error) error {
		top, _, nested := strings.Cut(p, "/")
		good, isXorb := sound[names.Key(p)]
		if err != nil || !e.Type().IsRegular() || !nested || slices.Contains([]string{"tmp", "locks", "vref"}, top) || isXorb && !good {
			return err
		}
		objects[p], err = os.ReadFile(filepath.Join(store, p))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}
