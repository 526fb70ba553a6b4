package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
)

// A simDisk is a folder in memory that records which bytes and names last. It can fail on
// command, hang, and lose power.
type simDisk struct {
	mu      sync.Mutex
	names   map[string]*simFile
	lasting map[string]*simFile // names that were synced with their folder
	changes []simChange         // names that were not
	clock   int64
	free    int64 // 0: no end of it
	retains bool  // deleted files stay in use: another process has them open
	held    int64 // their bytes
	locked  bool
	dead    bool
	opened  int // open files
	ops     int // changes so far
	dieAt   int // the change that the power does not survive; 0: none

	// fault is asked before every call, without the lock: it may wait.
	fault func(op, name string) error
}

// A simChange gives a name to a file, or takes it away (nil); a rename takes one away too.
type simChange struct {
	name, from string
	file       *simFile
}

func (c simChange) apply(names map[string]*simFile) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.file == nil {
		delete(names, c.name)
		return
	}
	names[c.name] = c.file
}

type simFile struct {
	data, lasting   []byte
	dirty           map[int64]bool // pages written since the last sync
	changed, synced int64          // time of change, now and as it lasts
	touched, kept   int64          // the same of the file itself
	dir, foreign    bool
	bad             int64 // offset of a byte that cannot be read; 0: none
}

const simPage = 4096

var errPower = errors.New("the power is gone")

func newSimDisk() *simDisk {
	d := &simDisk{names: make(map[string]*simFile), lasting: make(map[string]*simFile)}
	d.names[""] = &simFile{dir: true}
	d.lasting[""] = d.names[""]
	return d
}

// open is what Options.testing.openDir wants.
func (d *simDisk) openDir(string, bool) (vfs.Dir, error) {
	if err := d.ask("opendir", ""); err != nil {
		return nil, err
	}
	return &simFolder{simDisk: d}, nil
}

func (d *simDisk) ask(op, name string) error {
	d.mu.Lock()
	fault, dead := d.fault, d.dead
	d.mu.Unlock()
	if dead {
		return errPower
	}
	if fault == nil {
		return nil
	}
	if err := fault(op, name); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (d *simDisk) setFault(f func(op, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// hang makes all writes wait until release is called.
func (d *simDisk) hang(t *testing.T) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	d.setFault(func(op, _ string) error {
		if op == "write" {
			<-gate
		}
		return nil
	})
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return release
}

// step counts a change and reports whether the power fails during it. The caller holds mu.
func (d *simDisk) step() (dies bool) {
	d.ops++
	d.clock++
	dies = d.dieAt > 0 && d.ops >= d.dieAt
	d.dead = d.dead || dies
	return dies
}

func (d *simDisk) steps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// openFiles returns the number of open files.
func (d *simDisk) openFiles() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened
}

// there reports whether a file exists.
func (d *simDisk) there(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[name] != nil
}

// content returns a copy of the bytes of a file, nil if it is absent.
func (d *simDisk) content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return bytes.Clone(f.data)
	}
	return nil
}

// bytes returns what all files take.
func (d *simDisk) bytes() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.names {
		n += index.OnDisk(int64(len(f.data)))
	}
	return n
}

// killed returns the disk as it is after kill -9: it has everything that the kernel has.
func (d *simDisk) killed() *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newSimDisk()
	after.clock = d.clock
	for name, f := range d.names {
		after.names[name] = &simFile{data: bytes.Clone(f.data), lasting: bytes.Clone(f.lasting), dirty: maps.Clone(f.dirty), changed: f.changed, synced: f.synced, touched: f.touched, kept: f.touched, dir: f.dir}
		if d.lasting[name] == f {
			after.lasting[name] = after.names[name]
		}
	}
	// The data is still not durable, but old enough to be simple.
	after.lasting = maps.Clone(after.names)
	return after
}

// lostPower returns a possible state of the disk after a power loss. Unsynced pages are new,
// old, torn or garbage. Some files keep their former length, and some changes of names are lost.
func (d *simDisk) lostPower(rng *rand.Rand) *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newSimDisk()
	after.clock = d.clock
	names := maps.Clone(d.lasting)
	inOrder, kept := rng.IntN(2) == 0, rng.IntN(len(d.changes)+1)
	for i, c := range d.changes {
		if inOrder && i < kept || !inOrder && rng.IntN(2) == 0 {
			c.apply(names)
		}
	}
	luck := rng.Float64()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		after.names[name] = names[name].lostPower(rng, luck)
	}
	after.lasting = maps.Clone(after.names)
	return after
}

func (f *simFile) lostPower(rng *rand.Rand, luck float64) *simFile {
	data := bytes.Clone(f.lasting)
	size := len(f.lasting)
	switch rng.IntN(3) {
	case 0:
		size = len(f.data)
	case 1:
		size = min(size, len(f.data)) + rng.IntN(max(size, len(f.data))-min(size, len(f.data))+1)
	}
	data = append(data, make([]byte, max(0, size-len(data)))...)[:size]
	for _, page := range slices.Sorted(maps.Keys(f.dirty)) {
		from, to := min(page*simPage, int64(size)), min((page+1)*simPage, int64(size), int64(len(f.data)))
		if to <= from || rng.Float64() > luck {
			continue
		}
		switch rng.IntN(8) {
		case 0: // torn in the middle
			copy(data[from:to], f.data[from:from+(to-from)/2])
		case 1: // what was on the disk before, where nothing had been synced
			for i := max(from, int64(len(f.lasting))); i < to; i++ {
				data[i] = byte(rng.Uint32())
			}
		default:
			copy(data[from:to], f.data[from:to])
		}
	}
	changed := f.synced
	if rng.IntN(2) == 0 {
		changed = f.changed
	}
	touched := f.kept
	switch rng.IntN(8) {
	case 0: // a file system that does not keep it well
		touched -= int64(rng.IntN(2))
	case 1, 2, 3:
		touched = f.touched
	}
	return &simFile{data: data, lasting: bytes.Clone(data), changed: changed, synced: changed, touched: touched, kept: touched, dir: f.dir}
}

// A simFolder is a simDisk as one process has it open.
type simFolder struct {
	*simDisk
	holds bool
}

func (d *simFolder) Create(name string) (vfs.File, error) {
	if err := d.ask("create", name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.names[name]; there {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	if folder := path.Dir(name); folder != "." && d.names[folder] == nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrNotExist}
	}
	if d.step() {
		return nil, errPower
	}
	f := &simFile{dirty: make(map[int64]bool), changed: d.clock, touched: d.clock}
	d.change(simChange{name: name, file: f})
	d.opened++
	return &simOpen{d: d.simDisk, name: name, f: f, write: true}, nil
}

func (d *simFolder) change(c simChange) {
	c.apply(d.names)
	d.changes = append(d.changes, c)
}

func (d *simFolder) Open(name string, write bool) (vfs.File, error) {
	if err := d.ask("open", name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	switch {
	case f == nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case f.foreign || f.dir:
		return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.ErrForeign}
	}
	d.opened++
	return &simOpen{d: d.simDisk, name: name, f: f, write: write}, nil
}

func (d *simFolder) Rename(from, to string) error {
	if err := d.ask("rename", from); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[from]
	if f == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	if d.step() {
		return errPower
	}
	f.touched = d.clock
	d.change(simChange{name: to, from: from, file: f})
	return nil
}

func (d *simFolder) Remove(name string) error {
	if err := d.ask("remove", name); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if d.step() {
		return errPower
	}
	if d.retains {
		d.held += index.OnDisk(int64(len(d.names[name].data)))
	}
	d.change(simChange{name: name})
	return nil
}

func (d *simFolder) Stat(name string) (vfs.FileInfo, error) {
	if err := d.ask("stat", name); err != nil {
		return vfs.FileInfo{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		return vfs.FileInfo{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return f.entry(), nil
}

func (d *simFolder) Mkdir(name string) error {
	if err := d.ask("mkdir", name); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] != nil {
		return nil
	}
	if d.step() {
		return errPower
	}
	d.change(simChange{name: name, file: &simFile{dir: true}})
	return nil
}

func (d *simFolder) List(dir string) ([]vfs.FileInfo, error) {
	if err := d.ask("list", dir); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[dir] == nil {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	var entries []vfs.FileInfo
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		in := strings.TrimPrefix(path.Dir(name), ".")
		if name == "" || in != dir {
			continue
		}
		e := d.names[name].entry()
		e.Name = path.Base(name)
		entries = append(entries, e)
	}
	return entries, nil
}

func (f *simFile) entry() vfs.FileInfo {
	return vfs.FileInfo{Size: int64(len(f.data)), MTime: f.changed, CTime: f.touched, Regular: !f.dir && !f.foreign}
}

func (d *simFolder) SyncDir(dir string) error {
	if err := d.ask("syncdir", dir); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.step() {
		return errPower
	}
	var rest []simChange
	for _, c := range d.changes {
		if strings.TrimPrefix(path.Dir(c.name), ".") == dir {
			c.apply(d.lasting)
			if c.file != nil {
				c.file.kept = c.file.touched
			}
		} else {
			rest = append(rest, c)
		}
	}
	d.changes = rest
	return nil
}

func (d *simFolder) Space() (free, total int64, err error) {
	if err := d.ask("space", ""); err != nil {
		return 0, 0, err
	}
	d.mu.Lock()
	limit, held := d.simDisk.free, d.held
	d.mu.Unlock()
	if limit == 0 {
		return 1 << 50, 1 << 50, nil
	}
	return limit - held - d.bytes(), limit, nil
}

func (d *simFolder) Lock() error {
	if err := d.ask("lock", vfs.LockName); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked {
		return vfs.ErrLocked
	}
	d.locked, d.holds = true, true
	return nil
}

func (d *simFolder) Probe() error {
	err := vfs.WriteFile(d, vfs.ProbeName, []byte("probe"))
	return errors.Join(err, d.Remove(vfs.ProbeName))
}

func (d *simFolder) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holds {
		d.locked, d.holds = false, false
	}
	return nil
}

// A simOpen is a file that is open.
type simOpen struct {
	d      *simDisk
	name   string
	f      *simFile
	write  bool
	closed bool
}

func (o *simOpen) ask(op string) error {
	if err := o.d.ask(op, o.name); err != nil {
		return err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if o.closed {
		return os.ErrClosed
	}
	return nil
}

func (o *simOpen) ReadAt(p []byte, off int64) (int, error) {
	if err := o.ask("read"); err != nil {
		return 0, err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if bad := o.f.bad; off <= bad && bad < off+int64(len(p)) && bad > 0 {
		return 0, &fs.PathError{Op: "read", Path: o.name, Err: unix.EIO}
	}
	n := copy(p, o.f.data[min(off, int64(len(o.f.data))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (o *simOpen) WriteAt(p []byte, off int64) (int, error) {
	if err := o.ask("write"); err != nil {
		return 0, err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if !o.write {
		return 0, fs.ErrPermission
	}
	dies := o.d.step()
	if dies {
		p = p[:len(p)/2]
	}
	f := o.f
	end := off + int64(len(p))
	if grow := end - int64(len(f.data)); grow > 0 {
		f.data = append(f.data, make([]byte, grow)...)
	}
	copy(f.data[off:], p)
	if f.dirty == nil {
		f.dirty = make(map[int64]bool)
	}
	for page := off / simPage; page*simPage < end; page++ {
		f.dirty[page] = true
	}
	f.changed, f.touched = o.d.clock, o.d.clock
	if dies {
		return len(p), errPower
	}
	return len(p), nil
}

func (o *simOpen) Truncate(size int64) error {
	if err := o.ask("truncate"); err != nil {
		return err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if o.d.step() {
		return errPower
	}
	o.f.data = o.f.data[:size]
	return nil
}

func (o *simOpen) Sync() error {
	if err := o.ask("sync"); err != nil {
		return err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if o.d.step() {
		return errPower
	}
	f := o.f
	size := len(f.data)
	f.lasting = append(f.lasting, make([]byte, max(0, size-len(f.lasting)))...)[:size]
	for page := range f.dirty {
		from := min(page*simPage, int64(size))
		copy(f.lasting[from:], f.data[from:min((page+1)*simPage, int64(size))])
	}
	f.dirty = make(map[int64]bool)
	f.synced, f.kept = f.changed, f.touched
	return nil
}

func (o *simOpen) Stat() (vfs.FileInfo, error) {
	if err := o.ask("stat"); err != nil {
		return vfs.FileInfo{}, err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	return o.f.entry(), nil
}

func (o *simOpen) OSFile() *os.File { return nil }

func (o *simOpen) TryRead([]byte, int64) int { return 0 }

func (o *simOpen) Close() error {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if !o.closed {
		o.closed = true
		o.d.opened--
	}
	return nil
}
