package meter

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A constant file system answers each message with one status, without an allocation.
type constant struct {
	fuse.RawFileSystem
	status fuse.Status
}

func (c *constant) Lookup(<-chan struct{}, *fuse.InHeader, string, *fuse.EntryOut) fuse.Status {
	return c.status
}
func (c *constant) GetAttr(<-chan struct{}, *fuse.GetAttrIn, *fuse.AttrOut) fuse.Status {
	return c.status
}
func (c *constant) Readlink(<-chan struct{}, *fuse.InHeader) ([]byte, fuse.Status) {
	return nil, c.status
}
func (c *constant) GetXAttr(<-chan struct{}, *fuse.InHeader, string, []byte) (uint32, fuse.Status) {
	return 0, c.status
}
func (c *constant) ListXAttr(<-chan struct{}, *fuse.InHeader, []byte) (uint32, fuse.Status) {
	return 0, c.status
}
func (c *constant) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return c.status }
func (c *constant) Read(<-chan struct{}, *fuse.ReadIn, []byte) (fuse.ReadResult, fuse.Status) {
	return nil, c.status
}
func (c *constant) Release(<-chan struct{}, *fuse.ReleaseIn)                         {}
func (c *constant) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return c.status }
func (c *constant) ReadDir(<-chan struct{}, *fuse.ReadIn, *fuse.DirEntryList) fuse.Status {
	return c.status
}
func (c *constant) ReadDirPlus(<-chan struct{}, *fuse.ReadIn, *fuse.DirEntryList) fuse.Status {
	return c.status
}
func (c *constant) ReleaseDir(*fuse.ReleaseIn) {}
func (c *constant) StatFs(<-chan struct{}, *fuse.InHeader, *fuse.StatfsOut) fuse.Status {
	return c.status
}

// messages sends one message of each kind to a meter.
func messages(m *Meter) map[string]func() {
	return map[string]func(){
		"lookup":      func() { m.Lookup(nil, nil, "", nil) },
		"getattr":     func() { m.GetAttr(nil, nil, nil) },
		"readlink":    func() { m.Readlink(nil, nil) },
		"getxattr":    func() { m.GetXAttr(nil, nil, "", nil) },
		"listxattr":   func() { m.ListXAttr(nil, nil, nil) },
		"open":        func() { m.Open(nil, nil, nil) },
		"read":        func() { m.Read(nil, nil, nil) },
		"release":     func() { m.Release(nil, nil) },
		"opendir":     func() { m.OpenDir(nil, nil, nil) },
		"readdir":     func() { m.ReadDir(nil, nil, nil) },
		"readdirplus": func() { m.ReadDirPlus(nil, nil, nil) },
		"releasedir":  func() { m.ReleaseDir(nil) },
		"statfs":      func() { m.StatFs(nil, nil, nil) },
	}
}

// Each kind of message is counted under its name, and no message allocates.
func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		status fuse.Status
		errors int64 // for each message that has a reply
	}{{fuse.OK, 0}, {fuse.ENOENT, 0}, {fuse.Status(syscall.ERANGE), 0}, {fuse.EIO, 1}, {fuse.EACCES, 1}} {
		m := New(&constant{status: tt.status})
		sent := int64(0)
		for name, send := range messages(m) {
			before := m.Taken()
			if n := testing.AllocsPerRun(50, send); n != 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
			sent += m.Taken() - before
			want := m.Taken() - before
			errors := want * tt.errors
			if name == "release" || name == "releasedir" {
				errors = 0
			}
			if s := m.Stats()[name]; s.Latency.Count != want || s.Errors != errors {
				t.Errorf("%s with %v: %d messages and %d errors, want %d and %d", name, tt.status, s.Latency.Count, s.Errors, want, errors)
			}
		}
		if all := m.Stats(); len(all) != int(operations) || m.Taken() != sent || m.Pending() != 0 {
			t.Errorf("%d operations, %d messages of %d, %d pending", len(all), m.Taken(), sent, m.Pending())
		}
	}
}

// A panicking file system has no handler.
type panicking struct{ fuse.RawFileSystem }

// A message whose handler panics has a reply: the error of the panic handler.
func TestPanic(t *testing.T) {
	m := New(panicking{})
	for name, send := range messages(m) {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			send()
		}()
		if s := m.Stats()[name]; s.Latency.Count != 1 || s.Errors != 1 {
			t.Errorf("%s: %d messages and %d errors, want 1 and 1", name, s.Latency.Count, s.Errors)
		}
	}
	if m.Pending() != 0 {
		t.Errorf("%d pending", m.Pending())
	}
}

// BenchmarkRead measures what the figures add to a READ.
func BenchmarkRead(b *testing.B) {
	below := &constant{status: fuse.OK}
	for name, f := range map[string]fuse.RawFileSystem{"without": below, "with": New(below)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.Read(nil, nil, nil)
			}
		})
	}
}
