package fs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
)

// A Watch finds out whether a mount answers. It sends no message to the mount: RefusePoll has the
// reason. It is not safe for concurrent use.
type Watch struct {
	files   *filesystem
	waiting int           // file with the number of messages without a reply; -1: none
	check   chan struct{} // closed when the last check has ended; nil: no check yet

	taken int64 // messages that handlers had taken at the last call with waiting ones; -1: none waited
}

// NewWatch returns a Watch of the mount. It must be closed.
func (s *Server) NewWatch() *Watch {
	w := &Watch{files: s.files, waiting: -1, taken: -1}
	if fd, err := fusemount.OpenWaiting(s.device.Number()); err == nil {
		w.waiting = fd
	}
	return w
}

// Close releases the Watch.
func (w *Watch) Close() {
	if w.waiting >= 0 {
		unix.Close(w.waiting)
	}
	w.waiting = -1
}

// IsAnswering reports whether a handler answers within limit. If messages waited for a handler at
// this call and the last one, handlers must have taken some in between.
func (w *Watch) IsAnswering(limit time.Duration) bool {
	return w.isHandling(limit) && w.isTaking()
}

// isHandling asks a handler for the attributes of the root, which need no origin.
func (w *Watch) isHandling(limit time.Duration) bool {
	if w.check == nil || isClosed(w.check) {
		check := make(chan struct{})
		w.check = check
		go func() {
			defer close(check)
			in := fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: rootID.ino}}
			w.files.GetAttr(nil, &in, new(fuse.AttrOut))
		}()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.check:
		return true
	case <-timer.C:
		return false
	}
}

// isTaking reports whether handlers take the messages of the kernel.
func (w *Watch) isTaking() bool {
	taken := w.files.messages.Taken()
	if w.queued() <= 0 {
		w.taken = -1
		return true
	}
	isStuck := taken == w.taken
	w.taken = taken
	return !isStuck
}

// queued returns the number of messages that no handler has taken; 0 if it is unknown.
func (w *Watch) queued() int64 {
	if w.waiting < 0 {
		return 0
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", w.waiting), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	text := make([]byte, 32)
	n, err := unix.Read(fd, text)
	waiting, bad := strconv.ParseInt(strings.TrimSpace(string(text[:max(n, 0)])), 10, 64)
	if err != nil || bad != nil {
		return 0
	}
	return waiting - w.files.messages.Pending()
}
