package dir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
)

var (
	_ origin.Watcher = (*Store)(nil)
	_ origin.Watcher = (*ReadOnly)(nil)
)

// watched are the events of names in a folder, and those that end a watch of the folder.
const watched = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_CLOSE_WRITE |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// lastEvents are the events that end a watch.
const lastEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED

// Watch implements origin.Watcher for the names in the folder of each prefix; folders in it
// are not watched. It refuses network file systems, where changes by other hosts cause no
// events. The folders must exist.
func (s *Store) Watch(ctx context.Context, prefixes ...string) (<-chan struct{}, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	queue := os.NewFile(uintptr(fd), "inotify")
	for _, prefix := range prefixes {
		folder := path.Dir(prefix + "x")
		if err := s.watch(fd, folder); err != nil {
			queue.Close()
			if errors.Is(err, errors.ErrUnsupported) {
				return nil, fmt.Errorf("watch %q: %w", folder, err)
			}
			return nil, fmt.Errorf("watch %w", wrap(folder, err))
		}
	}
	changed := make(chan struct{}, 1)
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		queue.Close() // ends a read of the queue
	})
	go func() {
		defer close(changed)
		listen(queue, changed)
		if stop() {
			queue.Close()
			return
		}
		<-closed // a second Close would not wait for the first
	}()
	return changed, nil
}

// Watch implements origin.Watcher.
func (s *ReadOnly) Watch(ctx context.Context, prefixes ...string) (<-chan struct{}, error) {
	return s.current().Watch(ctx, prefixes...)
}

// watch adds a folder to an inotify queue.
func (s *Store) watch(queue int, folder string) error {
	f, err := s.files.root.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkLocal(f); err != nil {
		return err
	}
	open := fmt.Sprintf("/proc/self/fd/%d", f.Fd()) // this folder, even if its path has changed
	_, err = unix.InotifyAddWatch(queue, open, watched)
	return os.NewSyscallError("inotify_add_watch", err)
}

// networkFS has the numbers of file systems that other hosts can change without events here.
var networkFS = map[int64]string{
	unix.NFS_SUPER_MAGIC:   "nfs",
	unix.SMB_SUPER_MAGIC:   "smb",
	unix.CIFS_SUPER_MAGIC:  "cifs",
	unix.SMB2_SUPER_MAGIC:  "smb2",
	unix.FUSE_SUPER_MAGIC:  "fuse",
	unix.V9FS_MAGIC:        "9p",
	unix.CEPH_SUPER_MAGIC:  "ceph",
	unix.AFS_SUPER_MAGIC:   "afs",
	unix.AFS_FS_MAGIC:      "afs",
	unix.CODA_SUPER_MAGIC:  "coda",
	unix.NCP_SUPER_MAGIC:   "ncp",
	unix.OCFS2_SUPER_MAGIC: "ocfs2",
	0x01161970:             "gfs2",
	0x0bd00bd0:             "lustre",
	0x47504653:             "gpfs",
}

// checkLocal refuses folders on file systems that other hosts can change.
func checkLocal(f *os.File) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if name, ok := networkFS[int64(st.Type)&0xffffffff]; ok {
		return fmt.Errorf("on a file system of type %s: %w", name, errors.ErrUnsupported)
	}
	return nil
}

// listen sends to changed whenever the queue has events. It returns when the queue is closed,
// or after the last event of a folder. An overflow of the queue is an event, too.
func listen(queue *os.File, changed chan<- struct{}) {
	b := make([]byte, 16<<10)
	for {
		n, err := queue.Read(b)
		if err != nil {
			return
		}
		select {
		case changed <- struct{}{}:
		default: // an event is pending already
		}
		if isOver(b[:n]) {
			return
		}
	}
}

// isOver reports whether events holds the last event of a folder. An event is
//
//	offset  size  field, in the machine's byte order
//	     0     4  number of the watch
//	     4     4  mask
//	     8     4  cookie
//	    12     4  length of the name with padding
//	    16     …  name
func isOver(events []byte) bool {
	const header = unix.SizeofInotifyEvent
	for len(events) >= header {
		if binary.NativeEndian.Uint32(events[4:])&lastEvents != 0 {
			return true
		}
		name := binary.NativeEndian.Uint32(events[12:])
		events = events[min(uint64(len(events)), header+uint64(name)):]
	}
	return false
}
