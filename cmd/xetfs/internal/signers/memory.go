package signers

import (
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/catalog/signature"
)

const (
	memoryName   = "signed-versions.json"
	lockName     = "signed-versions.lock"
	newSuffix    = ".new"  // of a file that is being written
	maxRemember  = 4096    // symbols; the least recently changed one is forgotten
	maxMemory    = 4 << 20 // bytes of the file
	memoryFormat = 1
)

// A Memory is a file with the newest version of each symbol that was shown. Processes share it:
// each change is a replacement of the file under a lock. It implements signature.Memory.
type Memory struct {
	folder string
	log    *slog.Logger

	mu     sync.Mutex
	shown  map[symbolKey]signature.Shown // guarded by mu
	merged os.FileInfo                   // of the file whose rows are in shown; nil: none; guarded by mu
	failed bool                          // a warning was logged; guarded by mu
}

var _ signature.Memory = (*Memory)(nil)

type symbolKey struct{ catalog, symbol string }

// A memoryFile is the content of the file.
type memoryFile struct {
	Format int         `json:"format"`
	Shown  []memoryRow `json:"shown"` // the last changed one is last
}

type memoryRow struct {
	Catalog string    `json:"catalog"` // id
	Symbol  string    `json:"symbol"`
	Version uint64    `json:"version"`
	Time    time.Time `json:"time"`
}

// OpenMemory reads the file in a folder, which need not exist. Errors of later changes are logged.
func OpenMemory(folder string, log *slog.Logger) (*Memory, error) {
	m := &Memory{folder: folder, log: log, shown: map[symbolKey]signature.Shown{}}
	if err := m.mergeLocked(); err != nil {
		return nil, err
	}
	return m, nil
}

// mergeLocked adds the rows of the file, if it has changed. The newer version of a symbol stays.
func (m *Memory) mergeLocked() error {
	info, err := os.Stat(m.path())
	if err == nil && m.merged != nil && os.SameFile(info, m.merged) && info.ModTime().Equal(m.merged.ModTime()) && info.Size() == m.merged.Size() {
		return nil
	}
	file, err := m.read()
	if err != nil {
		return err
	}
	for _, r := range file.Shown {
		k := symbolKey{r.Catalog, r.Symbol}
		if before, ok := m.shown[k]; !ok || r.Version > before.Version {
			m.shown[k] = signature.Shown{Version: r.Version, Time: r.Time}
		}
	}
	m.merged = info
	return nil
}

func (m *Memory) path() string { return filepath.Join(m.folder, memoryName) }

// read reads the file. An absent file is empty. A damaged one is an error: without it, an old store
// would pass for a new one.
func (m *Memory) read() (*memoryFile, error) {
	f := &memoryFile{Format: memoryFormat}
	b, err := Read(m.path(), maxMemory)
	if errors.Is(err, iofs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(b, f)
	}
	if err == nil && f.Format != memoryFormat {
		err = fmt.Errorf("format %d is not known", f.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the versions that were shown are not known: %w; delete the file to begin anew", m.path(), err)
	}
	return f, nil
}

// Shown implements signature.Memory. It includes the versions that other processes have stored.
func (m *Memory) Shown(catalog, symbol string) (signature.Shown, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.mergeLocked() // Remember logs an unreadable file
	s, ok := m.shown[symbolKey{catalog, symbol}]
	return s, ok
}

// Remember implements signature.Memory.
func (m *Memory) Remember(catalog, symbol string, s signature.Shown, replace bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown[symbolKey{catalog, symbol}] = s
	err := m.store(memoryRow{catalog, symbol, s.Version, s.Time}, replace)
	if err != nil && !m.failed {
		m.failed = true
		m.log.Warn("the versions that were shown cannot be stored, so that a later rollback is not noticed", "event", "memory_failed", "err", err)
	}
}

// store adds a row to the file. Without replace, a newer version that another process has stored
// stays.
func (m *Memory) store(row memoryRow, replace bool) error {
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(m.folder, lockName), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	f, err := m.read()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(f.Shown, func(r memoryRow) bool { return r.Catalog == row.Catalog && r.Symbol == row.Symbol })
	if i >= 0 && !replace && f.Shown[i].Version > row.Version {
		return nil
	}
	if i >= 0 {
		f.Shown = slices.Delete(f.Shown, i, i+1)
	}
	f.Shown = append(f.Shown, row)
	f.Shown = f.Shown[max(0, len(f.Shown)-maxRemember):]
	return m.write(f)
}

// write replaces the file. Its lock excludes other writers, so one name is enough for new files, and the
// next writer replaces the one of a killed writer.
func (m *Memory) write(f *memoryFile) error {
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	file, err := os.OpenFile(m.path()+newSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // without effect after the rename
	_, err = file.Write(append(b, '\n'))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), m.path()); err != nil {
		return err
	}
	return syncFolder(m.folder)
}

// syncFolder makes the names in a folder durable. Some file systems do not support it, nor need it.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
