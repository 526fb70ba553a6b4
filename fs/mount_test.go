package fs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/fstest"
	"github.com/xetfs/xetfs/fs/fusemount"
)

func TestMain(m *testing.M) {
	fstest.PrivateMounts()
	goleak.VerifyTestMain(m)
}

func TestAttributes(t *testing.T) {
	e := newFakeEngine()
	tree := newFakeTree(
		e.file("dir/file", pattern(1000)),
		page.Entry{Path: "odd", Mode: 0o6755, Size: 3, Inline: []byte("abc"), Owner: &page.Owner{UID: 12, GID: 34}},
		page.Entry{Path: "link", Type: page.Symlink, Mode: 0o777, Target: "dir/file"},
		page.Entry{Path: "old", Inline: []byte{}, ModTime: time.Unix(-1, 0)},
	)
	uid := uint32(77)
	m := mountFake(t, tree, e, Options{UID: &uid})
	tests := []struct {
		name              string
		mode              uint32
		size, blocks, sec int64
		nlink             uint64
		uid, gid          uint32
	}{
		{"", unix.S_IFDIR | 0o555, 0, 0, then.Unix(), 1, 77, 0},
		{"dir", unix.S_IFDIR | 0o555, 0, 0, then.Unix(), 1, 77, 0},
		{"dir/file", unix.S_IFREG | 0o444, 1000, 2, then.Unix(), 1, 77, 0},
		{"odd", unix.S_IFREG | 0o6755, 3, 1, then.Unix(), 1, 12, 34},
		{"link", unix.S_IFLNK | 0o777, 8, 1, then.Unix(), 1, 77, 0},
		{"old", unix.S_IFREG | 0o444, 0, 0, -1, 1, 77, 0},
	}
	for _, tt := range tests {
		t.Run("/"+tt.name, func(t *testing.T) {
			var st unix.Stat_t
			if err := unix.Lstat(m.path(tt.name), &st); err != nil {
				t.Fatal(err)
			}
			if st.Mode != tt.mode || st.Size != tt.size || st.Blocks != tt.blocks || uint64(st.Nlink) != tt.nlink || st.Uid != tt.uid || st.Gid != tt.gid {
				t.Errorf("stat = mode %o, size %d, blocks %d, nlink %d, owner %d:%d", st.Mode, st.Size, st.Blocks, st.Nlink, st.Uid, st.Gid)
			}
			if st.Mtim.Sec != tt.sec || st.Atim != st.Mtim || st.Ctim != st.Mtim {
				t.Errorf("times = %v %v %v, want %d s", st.Atim, st.Mtim, st.Ctim, tt.sec)
			}
		})
	}
	if target, err := os.Readlink(m.path("link")); target != "dir/file" || err != nil {
		t.Errorf("Readlink = %q, %v", target, err)
	}
}

func TestK24_Reads(t *testing.T) {
	e := newFakeEngine()
	want := pattern(2<<20 + 17)
	m := mountFake(t, newFakeTree(e.file("f", want), page.Entry{Path: "tiny", Size: 3, Inline: []byte("abc")}, page.Entry{Path: "empty"}), e, Options{})
	f, err := os.Open(m.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(len(want))
	for _, off := range []int64{0, 1, 4095, 4096, 1<<20 - 1, size - 1, size, size + 1, 1 << 40} {
		for _, n := range []int{0, 1, 511, 4096, 1 << 20, 1<<20 + 1} {
			p := make([]byte, n)
			got, err := f.ReadAt(p, off)
			if err != nil && err != io.EOF {
				t.Errorf("read %d at %d: %v", n, off, err)
			}
			part := want[min(off, size):min(off+int64(n), size)]
			if !bytes.Equal(p[:got], part) {
				t.Errorf("read %d at %d: %d bytes, want %d", n, off, got, len(part))
			}
		}
	}
	for name, want := range map[string]string{"f": string(want), "tiny": "abc", "empty": ""} {
		if b, err := os.ReadFile(m.path(name)); string(b) != want || err != nil {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

func TestK24_DirectReads(t *testing.T) {
	e := newFakeEngine()
	want := pattern(1<<20 + 100)
	m := mountFake(t, newFakeTree(e.file("f", want)), e, Options{})
	fd, err := unix.Open(m.path("f"), unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var got []byte
	p := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, p)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		got = append(got, p[:n]...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, or others", len(got), len(want))
	}
}

func TestK23_ReadOnly(t *testing.T) {
	e := newFakeEngine()
	m := mountFake(t, newFakeTree(e.file("dir/f", pattern(10))), e, Options{})
	f, dir, none := m.path("dir/f"), m.path("dir"), m.path("dir/none")
	open := func(path string, flags int) error {
		fd, err := unix.Open(path, flags, 0o644)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	tests := []struct {
		name string
		do   func() error
	}{
		{"open for writing", func() error { return open(f, unix.O_WRONLY) }},
		{"open for both", func() error { return open(f, unix.O_RDWR) }},
		{"open to append", func() error { return open(f, unix.O_WRONLY|unix.O_APPEND) }},
		{"open and truncate", func() error { return open(f, unix.O_RDWR|unix.O_TRUNC) }},
		{"create", func() error { return open(none, unix.O_CREAT|unix.O_WRONLY) }},
		{"unnamed file", func() error { return open(dir, unix.O_TMPFILE|unix.O_WRONLY) }},
		{"truncate", func() error { return unix.Truncate(f, 1) }},
		{"access", func() error { return unix.Access(f, unix.W_OK) }},
		{"mkdir", func() error { return unix.Mkdir(none, 0o755) }},
		{"mknod", func() error { return unix.Mknod(none, unix.S_IFREG, 0) }},
		{"rmdir", func() error { return unix.Rmdir(dir) }},
		{"unlink", func() error { return unix.Unlink(f) }},
		{"rename", func() error { return unix.Rename(f, none) }},
		{"link", func() error { return unix.Link(f, none) }},
		{"symlink", func() error { return unix.Symlink("x", none) }},
		{"chmod", func() error { return unix.Chmod(f, 0o600) }},
		{"chown", func() error { return unix.Chown(f, 1, 1) }},
		{"utimes", func() error { return unix.Utimes(f, make([]unix.Timeval, 2)) }},
		{"setxattr", func() error { return unix.Setxattr(f, "user.a", []byte("b"), 0) }},
		{"removexattr", func() error { return unix.Removexattr(f, "user.xet.hash") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(); err != unix.EROFS {
				t.Errorf("error = %v, want EROFS", err)
			}
		})
	}
}

func TestK25_Calls(t *testing.T) {
	e := newFakeEngine()
	m := mountFake(t, newFakeTree(e.file("f", pattern(10_000))), e, Options{})
	fd, err := unix.Open(m.path("f"), unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	seek := func(off int64, whence int) string {
		n, err := unix.Seek(fd, off, whence)
		if err != nil {
			return err.(unix.Errno).Error()
		}
		return strconv.FormatInt(n, 10)
	}
	const noSuch = "no such device or address" // ENXIO
	tests := []struct {
		name   string
		off    int64
		whence int
		want   string
	}{
		{"data at the start", 0, unix.SEEK_DATA, "0"},
		{"data in the middle", 5000, unix.SEEK_DATA, "5000"},
		{"data at the end", 10_000, unix.SEEK_DATA, noSuch},
		{"hole at the start", 0, unix.SEEK_HOLE, "10000"},
		{"hole at the last byte", 9999, unix.SEEK_HOLE, "10000"},
		{"hole past the end", 10_001, unix.SEEK_HOLE, noSuch},
		{"end", -1, unix.SEEK_END, "9999"},
	}
	for _, tt := range tests {
		if got := seek(tt.off, tt.whence); got != tt.want {
			t.Errorf("%s: lseek = %s, want %s", tt.name, got, tt.want)
		}
	}
	if _, err := unix.IoctlGetInt(fd, 0x1234); err != unix.ENOTTY {
		t.Errorf("unknown ioctl: %v, want ENOTTY", err)
	}
	if err := unix.Flock(fd, unix.LOCK_SH); err != nil {
		t.Errorf("flock: %v", err)
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK, Len: 10}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &lock); err != nil {
		t.Errorf("fcntl lock: %v", err)
	}
	if err := unix.Fsync(fd); err != nil {
		t.Errorf("fsync: %v", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(m.dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Blocks != 3 || st.Bsize != 4096 || st.Bfree != 0 || st.Files != 1 || st.Ffree != 0 || st.Namelen != 255 {
		t.Errorf("statfs = %+v", st)
	}
	if st.Flags&unix.ST_RDONLY == 0 || st.Flags&unix.ST_NOSUID == 0 || st.Flags&unix.ST_NODEV == 0 {
		t.Errorf("mount flags = %#x", st.Flags)
	}
}

func TestK25_Xattrs(t *testing.T) {
	e := newFakeEngine()
	f := e.file("f", pattern(10))
	f.SHA256 = &[32]byte{1, 2, 3}
	f.Xattrs = map[string]string{"user.mine": "x", "user.xet.hash": "forged"}
	m := mountFake(t, newFakeTree(f, e.file("dir/plain", nil), e.file("long", pattern(10)), page.Entry{Path: "tiny", Size: 1, Inline: []byte("a")}), e, Options{})
	tests := []struct{ name, attr, want string }{
		{"f", "user.xet.hash", f.ID.File.String()},
		{"f", "user.xet.sha256", "010203" + strings.Repeat("0", 58)},
		{"f", "user.xet.verified", "chunk"},
		{"f", "user.xet.error", ""},
		{"f", "user.xet.stats", ""},
		{"f", "user.mine", "x"},
		{"f", "user.other", ""},
		{"f", "security.capability", "unsupported"},
		{"f", "security.selinux", "unsupported"},
		{"f", "system.posix_acl_access", "unsupported"},
		{"f", "trusted.x", "unsupported"},
		{"dir", "user.xet.hash", ""},
		{"long", "user.xet.sha256", ""},
		{"dir/plain", "user.xet.sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"tiny", "user.xet.sha256", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
		{"dir/plain", "user.xet.verified", "chunk"},
		{"tiny", "user.xet.verified", "chunk"},
		{"tiny", "user.xet.hash", ""},
		{".", "user.xet.stats", `{"Misses":7,"fuse":{"open":0,"passthrough":0,"read":0,"spliced":0,"bytes":0,"announced":0,"announced_opened":0,"pushed":0,"pushed_bytes":0}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.attr, func(t *testing.T) {
			p := make([]byte, 1000)
			n, err := unix.Getxattr(m.path(tt.name), tt.attr, p)
			switch {
			case tt.want == "" && err != unix.ENODATA:
				t.Errorf("error = %v, want ENODATA", err)
			case tt.want == "unsupported" && err != unix.EOPNOTSUPP:
				t.Errorf("error = %v, want EOPNOTSUPP", err)
			case tt.want == "", tt.want == "unsupported":
			case err != nil || string(p[:n]) != tt.want:
				t.Errorf("value = %q, %v, want %q", p[:max(n, 0)], err, tt.want)
			default:
				if n, err := unix.Getxattr(m.path(tt.name), tt.attr, nil); n < len(tt.want) || n > len(tt.want) && tt.attr != xattrStats || err != nil {
					t.Errorf("size = %d, %v, want %d", n, err, len(tt.want))
				}
				if len(tt.want) > 1 {
					if _, err := unix.Getxattr(m.path(tt.name), tt.attr, p[:1]); err != unix.ERANGE {
						t.Errorf("small buffer: %v, want ERANGE", err)
					}
				}
			}
		})
	}
	lists := map[string]string{
		"f":         "user.mine user.xet.hash user.xet.sha256 user.xet.verified ",
		"long":      "user.xet.hash user.xet.verified ",
		"dir/plain": "user.xet.hash user.xet.sha256 user.xet.verified ",
		"tiny":      "user.xet.sha256 user.xet.verified ",
		"dir":       "",
		".":         "user.xet.stats ",
	}
	for name, want := range lists {
		p := make([]byte, 1000)
		n, err := unix.Listxattr(m.path(name), p)
		if got := strings.ReplaceAll(string(p[:max(n, 0)]), "\x00", " "); got != want || err != nil {
			t.Errorf("list of %s = %q, %v, want %q", name, got, err, want)
		}
	}
	if n, err := unix.Listxattr(m.path("f"), nil); n != len(lists["f"]) || err != nil {
		t.Errorf("size of list = %d, %v", n, err)
	}
	if _, err := unix.Listxattr(m.path("f"), make([]byte, 3)); err != unix.ERANGE {
		t.Errorf("list in a small buffer: %v, want ERANGE", err)
	}
}

// Errors reach the program, the log, once, and user.xet.error; and it heals.
func TestI11_OneLinePerCause(t *testing.T) {
	e := newFakeEngine()
	log := newSyncBuffer()
	tree := newFakeTree(e.file("bad\nname", pattern(10_000)))
	m := mountFake(t, tree, e, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	broken := codec.Corrupt("chunk header", 3, "version 7 is not known")
	e.readErr.Store(&broken)
	path := m.path("bad\nname")
	for range 5 {
		if _, err := os.ReadFile(path); !errors.Is(err, unix.EIO) {
			t.Errorf("read: %v, want EIO", err)
		}
	}
	if lines := log.lines("event=corrupt"); len(lines) != 1 ||
		!strings.Contains(lines[0], `what=chunk`) || !strings.Contains(lines[0], `path="bad\nname"`) ||
		!strings.Contains(lines[0], "file=") || !strings.Contains(lines[0], "version 7") {
		t.Errorf("lines = %q, want one", lines)
	}
	p := make([]byte, 1000)
	if n, err := unix.Getxattr(path, "user.xet.error", p); err != nil || string(p[:n]) != broken.Error() {
		t.Errorf("user.xet.error = %q, %v", p[:max(n, 0)], err)
	}
	e.readErr.Store(nil)
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, pattern(10_000)) {
		t.Errorf("read again: %d bytes, %v", len(b), err)
	}
	if err := m.s.Unmount(); err != nil {
		t.Fatal(err)
	}
	if lines := log.lines("count="); len(lines) != 1 {
		t.Errorf("after the end: %q, want one line with a count", lines)
	}
}

func TestOpenErrors(t *testing.T) {
	e := newFakeEngine()
	wrong := e.file("wrong size", pattern(10))
	wrong.Size = 11
	tree := newFakeTree(e.file("f", pattern(10)), wrong)
	m := mountFake(t, tree, e, Options{})
	if _, err := os.ReadFile(m.path("wrong size")); !errors.Is(err, unix.EIO) {
		t.Errorf("wrong size: %v, want EIO", err)
	}
	denied := error(os.ErrPermission)
	e.openErr.Store(&denied)
	if _, err := os.Open(m.path("f")); !errors.Is(err, unix.EACCES) {
		t.Errorf("not permitted: %v, want EACCES", err)
	}
	e.openErr.Store(nil)
	e.readErr.Store(&denied)
	if _, err := os.ReadFile(m.path("f")); !errors.Is(err, unix.EIO) {
		t.Errorf("read not permitted: %v, want EIO", err)
	}
}

func TestReadLimit(t *testing.T) {
	e := newFakeEngine()
	e.block = make(chan struct{})
	log := newSyncBuffer()
	m := mountFake(t, newFakeTree(e.file("f", pattern(10))), e,
		Options{ReadLimit: time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if _, err := os.ReadFile(m.path("f")); !errors.Is(err, unix.EIO) {
		t.Errorf("read: %v, want EIO", err)
	}
	lines := log.lines("event=read_timeout")
	if len(lines) != 1 || !strings.Contains(lines[0], `err="no answer in time"`) {
		t.Errorf("log = %q", log.lines(""))
	}
	why := make([]byte, 100)
	n, err := unix.Getxattr(m.path("f"), "user.xet.error", why)
	if err != nil || string(why[:n]) != "no answer in time" {
		t.Errorf("user.xet.error = %q, %v", why[:max(n, 0)], err)
	}
}

// A hangingTree answers no lookup.
type hangingTree struct{ *fakeTree }

func (hangingTree) Lookup(ctx context.Context, _ string) (page.Entry, error) {
	<-ctx.Done()
	return page.Entry{}, ctx.Err()
}

// N03: the kernel sends lookups of one name one after the other, and a program may look up many
// names of a folder. All of them wait for one limit, behind a server that does not answer. Other
// folders have limits of their own.
func TestN03_LookupsOfOneFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFilesystem(volumeOf(hangingTree{newFakeTree()}), newFakeEngine(), Options{}.withDefaults())
		defer f.OnUnmount()
		lookUp := func(ino uint64) time.Duration {
			start := time.Now()
			if status := f.Lookup(nil, &fuse.InHeader{NodeId: ino}, "name", &fuse.EntryOut{}); status != fuse.EIO {
				t.Errorf("lookup: %v, want EIO", status)
			}
			return time.Since(start)
		}
		other := f.nodes.addLookup(identity{ino: 7}, "other", f.root.current.Load())
		first := lookUp(rootID.ino)
		var rest time.Duration
		for range 3 {
			rest += lookUp(rootID.ino)
		}
		if first != maxMetaLimit || rest > maxMetaLimit/10 {
			t.Errorf("the first lookup took %v, three more %v, want %v and at most %v", first, rest, maxMetaLimit, maxMetaLimit/10)
		}
		if took := lookUp(other); took != maxMetaLimit {
			t.Errorf("a lookup in another folder took %v, want %v", took, maxMetaLimit)
		}
		time.Sleep(timeoutRecent)
		if took := lookUp(rootID.ino); took != maxMetaLimit {
			t.Errorf("a later lookup took %v, want %v", took, maxMetaLimit)
		}
	})
}

// A slowStart is a catalog whose symbols take a while to come.
type slowStart struct{ *fakeCatalog }

var errStarted = errors.New("the symbols came")

func (slowStart) Symbols(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		select {
		case <-ctx.Done():
			yield("", ctx.Err())
		case <-time.After(2 * time.Minute):
			yield("", errStarted)
		}
	}
}

// O34: the limit of a read does not end a long list of symbols on a slow link. The caller of
// Mount can end it.
func TestO34_Start(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name  string
		start context.Context
		want  error
	}{
		{"none", nil, context.DeadlineExceeded},
		{"without a limit", context.Background(), errStarted},
		{"canceled", canceled, context.Canceled},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			if _, err := mount("/", slowStart{newFakeCatalog()}, newFakeEngine(), Options{Start: tt.start}); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		})
	}
}

func TestK11_Panic(t *testing.T) {
	e := newFakeEngine()
	log := newSyncBuffer()
	m := mountFake(t, newFakeTree(e.file("f", pattern(10))), e, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	e.panics.Store(true)
	if _, err := os.ReadFile(m.path("f")); !errors.Is(err, unix.EIO) {
		t.Errorf("read: %v, want EIO", err)
	}
	e.panics.Store(false)
	if b, err := os.ReadFile(m.path("f")); err != nil || len(b) != 10 {
		t.Errorf("read after the panic: %d bytes, %v", len(b), err)
	}
	if lines := log.lines("event=panic"); len(lines) == 0 || !strings.Contains(lines[0], "ReadAt") || m.s.files.panics.Load() == 0 {
		t.Errorf("log = %q", lines)
	}
}

// A killed reader goes at once, and so does the handler that served it.
func TestK12_K13_KilledReader(t *testing.T) {
	tests := []struct {
		name string
		args []string
	}{
		{"K12 buffered", []string{"dd", "if=f", "of=/dev/null", "bs=4k", "count=1"}},
		{"K13 direct", []string{"dd", "if=f", "of=/dev/null", "bs=4k", "count=1", "iflag=direct"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newFakeEngine()
			e.block = make(chan struct{})
			m := mountFake(t, newFakeTree(e.file("f", pattern(4096))), e, Options{})
			cmd := exec.Command(tt.args[0], tt.args[1:]...)
			cmd.Dir = m.dir
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the read arrives", func() bool { return e.reading.Load() > 0 })
			cmd.Process.Kill()
			cmd.Wait() // it would wait for e.block
			if strings.Contains(tt.name, "direct") {
				eventually(t, "the handler ends", func() bool { return e.reading.Load() == 0 })
			}
			close(e.block)
		})
	}
}

func TestInterruptedList(t *testing.T) {
	e := newFakeEngine()
	tree := newFakeTree(e.file("a", pattern(1)))
	tree.listed = context.Canceled
	m := mountFake(t, tree, e, Options{})
	fd, err := unix.Open(m.dir, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	p := make([]byte, 4096)
	if n, err := unix.Getdents(fd, p); n <= 0 || err != nil {
		t.Errorf("what came before the interrupt: %d bytes, %v", n, err)
	}
	if _, err := unix.Getdents(fd, p); err != unix.EINTR {
		t.Errorf("the interrupt: %v, want EINTR", err)
	}
}

func TestK02_K03_BusyShutdown(t *testing.T) {
	e := newFakeEngine()
	log := newSyncBuffer()
	m := mountFake(t, newFakeTree(e.file("f", pattern(100_000))), e, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	f, err := os.Open(m.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := m.s.Unmount(); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("Unmount = %v, want EBUSY", err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := m.s.Shutdown(time.Hour); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	eventually(t, "the mount point is gone", func() bool { _, err := os.Stat(m.path("f")); return err != nil })
	p := make([]byte, 100_000)
	if _, err := io.ReadFull(f, p); err != nil || !bytes.Equal(p, pattern(100_000)) {
		t.Errorf("read while shutting down: %v", err)
	}
	if len(log.lines("event=unmount_busy")) != 1 {
		t.Errorf("log = %q", log.lines(""))
	}
	if err := m.s.Shutdown(0); err != nil {
		t.Errorf("second Shutdown: %v", err)
	}
	ended.Wait() // the first one would wait for an hour
}

func TestK02_LastCloseEnds(t *testing.T) {
	e := newFakeEngine()
	m := mountFake(t, newFakeTree(e.file("f", pattern(10))), e, Options{})
	f, err := os.Open(m.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { f.Close() })
	if err := m.s.Shutdown(time.Hour); err != nil {
		t.Error(err)
	}
	m.s.Wait()
	if err := m.s.Unmount(); err != nil {
		t.Errorf("Unmount again: %v", err)
	}
	if n := m.s.files.files.len() + m.s.files.dirs.len(); n != 0 {
		t.Errorf("%d handles are left", n)
	}
}

func TestK16_Aborted(t *testing.T) {
	e := newFakeEngine()
	e.block = make(chan struct{})
	m := mountFake(t, newFakeTree(e.file("f", pattern(10))), e, Options{})
	result := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(m.path("f"))
		result <- err
	}()
	eventually(t, "the read arrives", func() bool { return e.reading.Load() > 0 })
	if err := m.s.device.Abort(); err != nil {
		t.Fatal(err)
	}
	m.s.Wait()
	if err := <-result; !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.ECONNABORTED) && !errors.Is(err, unix.EIO) {
		t.Errorf("read = %v, want ENOTCONN", err)
	}
}

// K53: the kernel uses the number of an ended mount again. An abort of the ended one leaves
// the new one alone.
func TestK53_AbortOfEndedMount(t *testing.T) {
	e := newFakeEngine()
	tree := newFakeTree(e.file("f", pattern(10)))
	ended := mountFake(t, tree, e, Options{})
	dev := ended.s.device.Number()
	control, err := fusemount.OpenAbort(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(control)
	if err := ended.s.Unmount(); err != nil {
		t.Fatal(err)
	}
	var m mountFixture
	for range 100 { // another process may have the number just now
		if m = mountFake(t, tree, e, Options{}); m.s.device.Number() == dev {
			break
		}
	}
	if m.s.device.Number() != dev {
		t.Skip("the number of the device was not used again")
	}
	if _, err := unix.Write(control, []byte("1")); err != nil {
		t.Log(err)
	}
	if err := ended.s.device.Abort(); err != nil {
		t.Log(err)
	}
	m.see(t, "f", string(pattern(10)))
}

func TestTwoMounts(t *testing.T) {
	e := newFakeEngine()
	tree := newFakeTree(e.file("f", pattern(10)))
	a, b := mountFake(t, tree, e, Options{}), mountFake(t, tree, e, Options{})
	for _, m := range []mountFixture{a, b, a} {
		if got, err := os.ReadFile(m.path("f")); len(got) != 10 || err != nil {
			t.Errorf("read: %d bytes, %v", len(got), err)
		}
	}
}

// Names that cannot be are left out of listings, and the rest of them is fine.
func TestS01_IllegalNames(t *testing.T) {
	e := newFakeEngine()
	tree := newFakeTree(e.file("good", nil))
	for _, name := range []string{"", ".", "..", "a\x00b", strings.Repeat("n", 256), "a/b"} {
		tree.byDir[""] = append(tree.byDir[""], page.Entry{Path: name})
	}
	log := newSyncBuffer()
	m := mountFake(t, tree, e, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	list, err := os.ReadDir(m.dir)
	if err != nil || len(list) != 1 || list[0].Name() != "good" {
		t.Errorf("ReadDir = %v, %v", list, err)
	}
	if n := len(log.lines("event=name_rejected")); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

func TestK30_MountPoints(t *testing.T) {
	needFUSE(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(dir, "with, comma and space")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	const name, listed = `a,b c\d`, `a,b\040c\134d`
	tests := []struct{ name, dir, from, listed, want string }{
		{"missing", filepath.Join(dir, "none"), name, "", "does not exist"},
		{"a file", file, name, "", "is not a directory"},
		{"below a file", filepath.Join(file, "x"), name, "", "not a directory"},
		{"odd name", odd, name, listed, ""},
		{"long name", odd, strings.Repeat("x", 9000), strings.Repeat("x", 1<<10) + "…", ""},
	}
	e := newFakeEngine()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := mount(tt.dir, newFakeTree(e.file("f", nil)), e, Options{FSName: tt.from})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error = %v, want %q", err, tt.want)
			}
			if s != nil {
				mounts, _ := os.ReadFile("/proc/self/mounts")
				if !strings.Contains(string(mounts), "\n"+tt.listed+" ") {
					t.Error("the name is not in /proc/self/mounts")
				}
				if err := s.Unmount(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The dead mount of a killed process is cleared away by the next.
func TestK04_StaleMount(t *testing.T) {
	e := newFakeEngine()
	tree := newFakeTree(e.file("f", pattern(10)))
	dead := mountFake(t, tree, e, Options{})
	f, err := os.Open(dead.path("f")) // keeps the dead mount from going away
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := dead.s.device.Abort(); err != nil {
		t.Fatal(err)
	}
	dead.s.Wait()
	log := newSyncBuffer()
	s, err := mountHere(dead.dir, tree, e, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(0)
	if b, err := os.ReadFile(dead.path("f")); len(b) != 10 || err != nil {
		t.Errorf("read: %d bytes, %v", len(b), err)
	}
	if len(log.lines("event=stale_mount_cleared")) != 1 {
		t.Errorf("log = %q", log.lines(""))
	}
}

// The kernel still lists the root of a dead mount that was listed before.
func TestK04_ListedStaleMount(t *testing.T) {
	e := newFakeEngine()
	dead := mountFake(t, newFakeTree(e.file("f", pattern(10))), e, Options{})
	for range 2 {
		if _, err := os.ReadDir(dead.dir); err != nil {
			t.Fatal(err)
		}
	}
	if fusemount.IsStale(dead.dir) {
		t.Error("a live mount is stale")
	}
	if err := dead.s.device.Abort(); err != nil {
		t.Fatal(err)
	}
	dead.s.Wait()
	if !fusemount.IsStale(dead.dir) {
		t.Error("a dead mount is not stale")
	}
}

// No child holds the device open: it has to go with this process.
func TestI12_DeviceIsNotInherited(t *testing.T) {
	e := newFakeEngine()
	mountFake(t, newFakeTree(e.file("f", nil)), e, Options{})
	// exec.Command closes nothing itself; it relies on close-on-exec like any child.
	out, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "fuse") {
		t.Errorf("a child inherits:\n%s", out)
	}
	own, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, fd := range own {
		target, _ := os.Readlink(fd)
		found = found || target == "/dev/fuse"
	}
	if !found {
		t.Error("this process has no /dev/fuse: the test tests nothing")
	}
}

func TestPermissions(t *testing.T) {
	e := newFakeEngine()
	secret := e.file("secret", pattern(10))
	secret.Mode = 0o400
	m := mountFake(t, newFakeTree(e.file("f", pattern(10)), secret), e, Options{AllowOther: true})
	if err := os.Chmod(filepath.Dir(m.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	cat := func(name string) error {
		cmd := exec.Command("cat", name)
		cmd.Dir = m.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		return cmd.Run()
	}
	if err := cat("f"); err != nil {
		t.Errorf("others cannot read what they may: %v", err)
	}
	if err := cat("secret"); err == nil {
		t.Error("others can read what they may not")
	}
}
