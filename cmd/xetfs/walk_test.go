package main

import (
	"bytes"
	"errors"
	"flag"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// smallFileSize is the limit of files that ingest reads ahead.
const smallFileSize = 64 << 10

var walkFaults = flag.Bool("walk-faults", false, "each system call of a walk fails with each error, not with one of them")

// machineErrors are errors of the machine that must not remove a file from a version.
var machineErrors = []unix.Errno{unix.EMFILE, unix.ENFILE, unix.EIO, unix.ENOMEM, unix.ENOSPC}

// walkTree is a folder with one of everything that a walk makes system calls for.
func walkTree(t *testing.T) string {
	t.Helper()
	in := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for path, size := range map[string]int{"empty": 0, "inline": 100, "small": 5000, "large": smallFileSize + 1, "d/e/f": 300, "d/g": 10} {
		path = filepath.Join(in, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, noisy(size))
		_ = unix.Setxattr(path, "user.a", []byte("value"), 0) // or there are none on this file system
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("small", filepath.Join(in, "link")); err != nil {
		t.Fatal(err)
	}
	return in
}

// A failingCall makes the nth system call of a walk fail once.
type failingCall struct {
	n    int64
	err  unix.Errno
	made atomic.Int64
	name string // of the call that failed
}

func (f *failingCall) fault(call string) error {
	if f.made.Add(1) != f.n {
		return nil
	}
	f.name = call
	return f.err
}

// eachFailure runs something once for each of its system calls that may fail, with all
// errors or with one of them.
func eachFailure(t *testing.T, run func(f *failingCall)) {
	t.Helper()
	for i, err := range machineErrors {
		for n := int64(1); ; n++ {
			if !*walkFaults && n%int64(len(machineErrors)) != int64(i) {
				continue
			}
			f := &failingCall{n: n, err: err}
			run(f)
			if f.made.Load() < n {
				break
			}
			if n > 1000 || t.Failed() && n > 100 {
				t.Fatal("too many calls")
			}
		}
	}
}

// endsWell fails the test unless a command either took all of a folder, or stopped with one line
// that names the error.
func (f *failingCall) endsWell(t *testing.T, status int, text string, complete, nothing bool) {
	t.Helper()
	switch {
	case status == exitGood && complete && text == "":
	case status == exitFailed && nothing && strings.Count(text, "\n") == 0 && strings.Contains(text, f.err.Error()):
	default:
		t.Errorf("%v of call %d (%s): status %d, complete %v, %q", f.err, f.n, f.name, status, complete, text)
	}
}

// maybeTree returns the entries of the newest version of a symbol, or nil.
func maybeTree(t *testing.T, store, symbol string) map[string]page.Entry {
	t.Helper()
	s, err := dir.OpenReadOnly(store)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := catalog.Open(t.Context(), s, origin.Pages(s))
	if err == nil {
		_, err = c.Open(t.Context(), symbol, names.AsOf{})
	}
	if err != nil {
		return nil
	}
	return treeOf(t, store, symbol)
}

// withOutput is a command whose output is kept.
func withOutput(t *testing.T, cmd *cobra.Command) (out, errOut *bytes.Buffer) {
	t.Helper()
	out, errOut = new(bytes.Buffer), new(bytes.Buffer)
	newRoot().AddCommand(cmd)
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	cmd.SetContext(t.Context())
	return out, errOut
}

// S31: each single system call of the walk fails once. A version exists only if the tree is
// complete; otherwise the message names the error.
func TestS31_PublishMachineErrors(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	in := walkTree(t)
	paths := len(walked(t, in))
	eachFailure(t, func(f *failingCall) {
		store := t.TempDir()
		cmd := newPublish()
		_, errOut := withOutput(t, cmd)
		p := newPublishRun(cmd, publishOptions{storePath: store, symbol: "x", folder: in, xattrs: true, folderFlags: newFolderFlags()})
		p.fault = f.fault
		err := p.run(t.Context())
		status := exitStatus(t.Context(), err)
		tree := maybeTree(t, store, "x")
		complete := len(tree) == paths
		for path, e := range tree {
			complete = complete && (e.Type != page.File || e.Xattrs != nil || tree["small"].Xattrs == nil)
			if path == "small" {
				complete = complete && e.Size == 5000
			}
		}
		f.endsWell(t, status, errOut.String()+errorLine(cmd, err, status), complete, tree == nil)
	})
}

// S31: attributes that cannot be read or stored are missing in the version: their file is named,
// and the exit status is 9.
func TestS31_LostXattrs(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	in, store := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(in, "f"), noisy(1000))
	if err := unix.Setxattr(filepath.Join(in, "f"), "user.a", []byte("value"), 0); err != nil {
		t.Skip(err)
	}
	cmd := newPublish()
	out, errOut := withOutput(t, cmd)
	p := newPublishRun(cmd, publishOptions{storePath: store, symbol: "x", folder: in, xattrs: true, folderFlags: newFolderFlags()})
	p.fault = func(call string) error {
		if call == "lgetxattr" {
			return unix.EACCES
		}
		return nil
	}
	status := exitStatus(t.Context(), p.run(t.Context()))
	if want := in + "/f: published without its extended attributes: permission denied\n"; status != exitIncomplete || !strings.HasSuffix(errOut.String(), want) {
		t.Errorf("status %d, %q, want %q", status, errOut, want)
	}
	if !strings.Contains(out.String(), "\nmissing   1 path, named on standard error: exit status 9\n") {
		t.Errorf("the summary is\n%s", out)
	}
	if e := treeOf(t, store, "x")["f"]; e.Size != 1000 || e.Xattrs != nil {
		t.Errorf("published as %+v", e)
	}
}

// S31: as for publish.
func TestS31_PackMachineErrors(t *testing.T) {
	in := walkTree(t)
	if err := os.Remove(filepath.Join(in, "link")); err != nil { // pack would name it
		t.Fatal(err)
	}
	eachFailure(t, func(f *failingCall) {
		cmd := newPack()
		out, errOut := withOutput(t, cmd)
		p := newPackRun(cmd, packOptions{folderFlags: newFolderFlags(), list: true})
		p.fault = f.fault
		err := p.run(t.TempDir(), []string{in})
		status := exitStatus(t.Context(), err)
		f.endsWell(t, status, errOut.String()+errorLine(cmd, err, status), strings.Contains(out.String(), "packed   6 files,"), true)
	})
}

// S31: a process that may open few files publishes and packs a whole tree.
func TestS31_FewDescriptors(t *testing.T) {
	in, work := t.TempDir(), t.TempDir()
	for i := range 60 {
		folder := filepath.Join(in, strings.Repeat("d", 1+i%7), strings.Repeat("e", 1+i))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 50 {
			writeFile(t, filepath.Join(folder, strings.Repeat("f", 1+j)), noisy(300+i+j))
		}
	}
	paths := len(walked(t, in))
	xetfs, err := exec.LookPath("xetfs")
	if err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{"publish", "store", "x", in}, {"pack", "bare", in}} {
		cmd := exec.Command("sh", append([]string{"-c", `ulimit -n 30; exec "$@"`, "sh", xetfs}, args...)...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "XDG_CACHE_HOME="+work)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", args[0], err, out)
		}
	}
	if tree := treeOf(t, filepath.Join(work, "store"), "x"); len(tree) != paths {
		t.Errorf("%d entries, %d in the folder", len(tree), paths)
	}
}
