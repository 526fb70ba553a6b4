package ingest

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// S31: the message of a MachineError has a next step.
func TestS31_MachineErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  MachineError
		want string
	}{
		{
			MachineError{"in/a*b", "a*b", unix.EIO, "nothing was published"},
			`in/a*b: input/output error: nothing was published; repair the disk or file system, or leave the path out: --exclude '/a\*b'`,
		},
		{
			MachineError{"in/d/e", "d/e", unix.EMFILE, "packing stopped"},
			`in/d/e: too many open files: packing stopped; allow more open files (ulimit -n), or leave the path out: --exclude '/d/e'`,
		},
		{MachineError{"in", "", unix.EIO, "nothing was published"}, `in: input/output error: nothing was published; repair the disk or file system`},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
}

// S34: mounts are compared by id. A file system may have several devices, as btrfs has one for
// each subvolume.
func TestS34_MountIDs(t *testing.T) {
	calls := new(syscalls)
	folder, err := calls.openAt(unix.AT_FDCWD, "/", unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(folder)
	root, err := calls.mountAt(unix.AT_FDCWD, "/")
	if err != nil || root == 0 {
		t.Skip("the kernel does not return ids of mounts", err)
	}
	proc, err := calls.mountAt(folder, "proc")
	var st stat
	if err := cmp.Or(err, calls.statAt(folder, "proc", &st)); err != nil || st.mount != proc {
		t.Fatalf("/proc is on mount %d, by its stat on %d, %v", proc, st.mount, err)
	}
	for _, tt := range []struct {
		oneFileSystem bool
		above, mount  uint64
		left          bool
	}{
		{false, root, proc, false},
		{true, root, proc, true},
		{true, root, root, false},
		{true, 0, proc, false}, // an old kernel
		{true, root, 0, false},
	} {
		m := mounts{oneFileSystem: tt.oneFileSystem}
		err := m.checkMount(tt.above, tt.mount)
		var left leftOut
		if errors.As(err, &left) != tt.left || !tt.left && err != nil {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if typ, err := new(mounts).mountType(proc); typ != "proc" || err != nil {
		t.Errorf("/proc is %q, %v", typ, err)
	}
}

// A link that another process replaces by a folder is a change of the tree (S32).
func TestS32_LinkReplaced(t *testing.T) {
	dir := t.TempDir()
	if _, err := new(syscalls).readlinkAt(unix.AT_FDCWD, dir, make([]byte, 16)); err == nil || IsMachine(err) {
		t.Errorf("readlink of a folder: %v, want an error that is not of the machine", err)
	}
}

// S31: attributes that are too many cannot be stored.
func TestS31_CheckXattrs(t *testing.T) {
	e := page.Entry{Path: "f", Type: page.File, Size: 1000, Xattrs: map[string]string{"user.a": strings.Repeat("x", 256<<10)}}
	if err := checkXattrs(&e); err == nil {
		t.Error("256 KiB of attributes can be stored")
	}
	e.Xattrs = map[string]string{"user.a": "x"}
	if err := checkXattrs(&e); err != nil {
		t.Error(err)
	}
}
