package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/fusemount"
	"github.com/xetfs/xetfs/fs/sequence"
)

// requestLimit is the age at which a request makes the kernel end a mount with pushes.
//
// A push of a page waits for a READ of the same page, and no signal ends that wait. In a killed process
// it keeps /dev/fuse open, and the reader would wait forever. With four readers one kill in 150 met such
// a push. The guard of the command aborts the connection then. The limit ends both without a guard.
//
// The limit must not end a mount that works. A read of a local store ends after Options.ReadLimit. A
// stopped process or a frozen control group does not answer at all.
const requestLimit = 10 * time.Minute

// canPush reports whether files may be pushed. A remote origin gains nothing by it, and in an outage
// many requests could wait for longer than requestLimit.
func (f *filesystem) canPush() bool { return f.engine.isLocal() && f.engine.proves() }

// newServer agrees with the kernel on the protocol. Files are pushed only if the kernel has the limit.
func (s *Server) newServer(device *fusemount.Device, o Options) (server *fuse.Server, err error) {
	attach := func(fd int) (err error) {
		server, err = fuse.NewServer(s.files.messages, fmt.Sprintf("/dev/fd/%d", fd), s.fuseOptions(o))
		return err
	}
	if !o.Push || !s.files.canPush() {
		err := attach(device.FD) // before server is read
		return server, err
	}
	limited, err := device.Handshake(o.requestLimit, attach)
	switch {
	case err != nil:
		return nil, err
	case limited:
		s.files.sequences = sequence.NewPushing(s.files.push)
	default:
		s.log.Debug("no files are pushed to the kernel; that takes Linux 6.15")
	}
	return server, nil
}

var pushBuffers = sync.Pool{New: func() any { return new([sequence.MaxPush]byte) }}

// push implements sequence.Push. Pages belong to an inode number, and a number belongs to one content.
// So the push of a version that is no longer shown does no harm.
func (f *filesystem) push(ctx context.Context, t sequence.Tree, e *page.Entry, isAhead func() bool) bool {
	from := t.(*version)
	if from.vol.pathSHA256(e.Path) != nil {
		return false // unproven
	}
	ino, ok := f.nodes.find(from.vol.identify(e))
	if !ok {
		return false
	}
	buf := pushBuffers.Get().(*[sequence.MaxPush]byte)
	defer pushBuffers.Put(buf)
	content := buf[:e.Size]
	if err := f.readWhole(ctx, e, content); err != nil || ctx.Err() != nil || !isAhead() {
		return false // the reader gets the content, or the error
	}
	if !f.kernel.InodeNotifyStoreCache(ino, 0, content).Ok() {
		return false // the kernel has forgotten the node, or the mount ends
	}
	if !hasTerms(e) {
		f.counters.inlineBytes.Add(e.Size)
	}
	f.counters.pushed.Add(1)
	f.counters.pushedBytes.Add(e.Size)
	return true
}

// readWhole fills p with the content of a file.
func (f *filesystem) readWhole(ctx context.Context, e *page.Entry, p []byte) (err error) {
	defer flight.Guard(&err) // a defect must not end the process
	ctx, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	r, err := f.openReader(ctx, e)
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := r.ReadAt(ctx, p, 0)
	if n < len(p) {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	return nil
}
