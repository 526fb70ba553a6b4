// Package meter counts the messages of a FUSE file system by operation.
//
// In order of use: New, Meter.Stats, Meter.Taken, Meter.Pending.
package meter

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/histogram"
)

// An operation is a kind of message that a meter counts.
type operation int

const (
	opLookup operation = iota
	opGetAttr
	opReadlink
	opGetXAttr
	opListXAttr
	opOpen
	opRead
	opRelease
	opOpenDir
	opReadDir
	opReadDirPlus
	opReleaseDir
	opStatFs
	operations // number of operations
)

var operationNames = [operations]string{
	"lookup", "getattr", "readlink", "getxattr", "listxattr", "open", "read", "release",
	"opendir", "readdir", "readdirplus", "releasedir", "statfs",
}

// A counter counts the messages of one operation.
type counter struct {
	latency histogram.Histogram
	errors  atomic.Int64
}

// Stats are the messages of one operation since the mount.
type Stats struct {
	Errors  int64            `json:"errors"`  // replies with EIO and other errors that a program does not expect
	Latency histogram.Counts `json:"latency"` // from the arrival of a message to its reply; the count is that of messages
}

// A Meter counts the messages for a file system by operation. It does not count messages that
// xetfs always refuses: the kernel sends those once or never. It allocates nothing.
type Meter struct {
	fuse.RawFileSystem
	counters     [operations]counter
	taken, ended atomic.Int64
	epoch        time.Time // time.Since reads one clock, time.Now reads two
}

// New returns a Meter that passes all messages to f.
func New(f fuse.RawFileSystem) *Meter { return &Meter{RawFileSystem: f, epoch: time.Now()} }

// Taken returns the number of counted messages that a handler has taken.
func (m *Meter) Taken() int64 { return m.taken.Load() }

// Pending returns the number of counted messages that handlers work on.
func (m *Meter) Pending() int64 {
	ended := m.ended.Load() // first, so that the result is never negative
	return m.taken.Load() - ended
}

// begin counts a message that has arrived. It returns the arguments of end, with the time since the
// epoch. A handler that panics leaves the status as it is: EIO.
func (m *Meter) begin(op operation, status *fuse.Status) (operation, time.Duration, *fuse.Status) {
	*status = fuse.EIO
	m.taken.Add(1)
	return op, time.Since(m.epoch), status
}

// end counts a reply. It must be deferred, since a handler may panic.
func (m *Meter) end(op operation, start time.Duration, status *fuse.Status) {
	c := &m.counters[op]
	c.latency.Add(time.Since(m.epoch) - start)
	if !isOrdinary(syscall.Errno(*status)) {
		c.errors.Add(1)
	}
	m.ended.Add(1)
}

// isOrdinary reports whether a program expects an errno as the answer to a question.
func isOrdinary(code syscall.Errno) bool {
	switch code {
	case 0, syscall.ENOENT, syscall.ENODATA, syscall.ERANGE, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EROFS, syscall.EINTR:
		return true
	}
	return false
}

// Stats returns the operations with messages, by name.
func (m *Meter) Stats() map[string]Stats {
	all := make(map[string]Stats)
	for op := range operations {
		c := &m.counters[op]
		if s := (Stats{c.errors.Load(), c.latency.Load()}); s.Latency.Count > 0 {
			all[operationNames[op]] = s
		}
	}
	return all
}

// Lookup implements fuse.RawFileSystem.
func (m *Meter) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) (status fuse.Status) {
	defer m.end(m.begin(opLookup, &status))
	return m.RawFileSystem.Lookup(cancel, in, name, out)
}

// GetAttr implements fuse.RawFileSystem.
func (m *Meter) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) (status fuse.Status) {
	defer m.end(m.begin(opGetAttr, &status))
	return m.RawFileSystem.GetAttr(cancel, in, out)
}

// Readlink implements fuse.RawFileSystem.
func (m *Meter) Readlink(cancel <-chan struct{}, in *fuse.InHeader) (out []byte, status fuse.Status) {
	defer m.end(m.begin(opReadlink, &status))
	return m.RawFileSystem.Readlink(cancel, in)
}

// GetXAttr implements fuse.RawFileSystem.
func (m *Meter) GetXAttr(cancel <-chan struct{}, in *fuse.InHeader, name string, dest []byte) (n uint32, status fuse.Status) {
	defer m.end(m.begin(opGetXAttr, &status))
	return m.RawFileSystem.GetXAttr(cancel, in, name, dest)
}

// ListXAttr implements fuse.RawFileSystem.
func (m *Meter) ListXAttr(cancel <-chan struct{}, in *fuse.InHeader, dest []byte) (n uint32, status fuse.Status) {
	defer m.end(m.begin(opListXAttr, &status))
	return m.RawFileSystem.ListXAttr(cancel, in, dest)
}

// Open implements fuse.RawFileSystem.
func (m *Meter) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) (status fuse.Status) {
	defer m.end(m.begin(opOpen, &status))
	return m.RawFileSystem.Open(cancel, in, out)
}

// Read implements fuse.RawFileSystem. The time of a splice is not included.
func (m *Meter) Read(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (r fuse.ReadResult, status fuse.Status) {
	defer m.end(m.begin(opRead, &status))
	return m.RawFileSystem.Read(cancel, in, p)
}

// Release implements fuse.RawFileSystem.
func (m *Meter) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	var status fuse.Status
	defer m.end(m.begin(opRelease, &status))
	m.RawFileSystem.Release(cancel, in)
	status = fuse.OK
}

// OpenDir implements fuse.RawFileSystem.
func (m *Meter) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) (status fuse.Status) {
	defer m.end(m.begin(opOpenDir, &status))
	return m.RawFileSystem.OpenDir(cancel, in, out)
}

// ReadDir implements fuse.RawFileSystem.
func (m *Meter) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) (status fuse.Status) {
	defer m.end(m.begin(opReadDir, &status))
	return m.RawFileSystem.ReadDir(cancel, in, out)
}

// ReadDirPlus implements fuse.RawFileSystem.
func (m *Meter) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) (status fuse.Status) {
	defer m.end(m.begin(opReadDirPlus, &status))
	return m.RawFileSystem.ReadDirPlus(cancel, in, out)
}

// ReleaseDir implements fuse.RawFileSystem.
func (m *Meter) ReleaseDir(in *fuse.ReleaseIn) {
	var status fuse.Status
	defer m.end(m.begin(opReleaseDir, &status))
	m.RawFileSystem.ReleaseDir(in)
	status = fuse.OK
}

// StatFs implements fuse.RawFileSystem.
func (m *Meter) StatFs(cancel <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) (status fuse.Status) {
	defer m.end(m.begin(opStatFs, &status))
	return m.RawFileSystem.StatFs(cancel, in, out)
}
