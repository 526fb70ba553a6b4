package integration

import (
	"context"
	"syscall"
	"testing"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// slowFolder mounts a folder a second time, served by this program, where reads wait at
// a gate: a disk that hangs. The mount under test takes its objects from there.
func slowFolder(t testing.TB, folder string) (string, *harness.Gate) {
	t.Helper()
	harness.NeedFuse(t)
	gate := harness.NewGate()
	dir := t.TempDir()
	loopback := &fusefs.LoopbackRoot{Path: folder}
	root := &slowNode{&fusefs.LoopbackNode{RootData: loopback}, gate}
	loopback.RootNode = root
	var timeout time.Duration
	server := serveFuse(t, fusefs.NewNodeFS(root, &fusefs.Options{EntryTimeout: &timeout, AttrTimeout: &timeout}), dir, &fuse.MountOptions{
		FsName: folder, Name: "slow", DirectMountStrict: unix.Geteuid() == 0,
	})
	t.Cleanup(func() {
		gate.Open()
		if err := server.Unmount(); err != nil {
			t.Errorf("slow folder: %v", err)
			unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // nothing else helps
		}
	})
	return dir, gate
}

// A slowNode is a file or folder behind the gate.
type slowNode struct {
	*fusefs.LoopbackNode
	gate *harness.Gate
}

var (
	_ fusefs.NodeOpener      = (*slowNode)(nil)
	_ fusefs.NodeWrapChilder = (*slowNode)(nil)
)

// WrapChild puts what is below behind the gate too.
func (n *slowNode) WrapChild(_ context.Context, below fusefs.InodeEmbedder) fusefs.InodeEmbedder {
	return &slowNode{below.(*fusefs.LoopbackNode), n.gate}
}

// Open opens a file whose pages the kernel does not keep.
func (n *slowNode) Open(ctx context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	h, _, code := n.LoopbackNode.Open(ctx, flags)
	if code != 0 {
		return nil, 0, code
	}
	return &slowFile{h, n.gate}, fuse.FOPEN_DIRECT_IO, 0
}

type slowFile struct {
	fusefs.FileHandle
	gate *harness.Gate
}

var (
	_ fusefs.FileReader   = (*slowFile)(nil)
	_ fusefs.FileReleaser = (*slowFile)(nil)
)

// Read waits at the gate.
func (f *slowFile) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if f.gate.Pass(ctx) != nil {
		return nil, syscall.EINTR
	}
	return f.FileHandle.(fusefs.FileReader).Read(ctx, dest, off)
}

// Release closes the file.
func (f *slowFile) Release(ctx context.Context) syscall.Errno {
	return f.FileHandle.(fusefs.FileReleaser).Release(ctx)
}
