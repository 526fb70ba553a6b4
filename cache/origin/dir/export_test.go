package dir

import (
	"maps"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/names"
)

// Dirty returns the folders that the next Sync will make durable.
func (s *Store) Dirty() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.dirty)
}

// NoLinks makes s work as on a file system without hard links.
func (s *Store) NoLinks() {
	s.hard = func(from, to string) error { return &os.LinkError{Op: "linkat", Old: from, New: to, Err: unix.EPERM} }
}

// RecordSyncs returns the folders that s syncs from now on.
func (s *Store) RecordSyncs() (synced *[]string) {
	synced = new([]string)
	s.fsync = func(folder *os.File) error {
		*synced = append(*synced, folder.Name())
		return syncFolder(folder)
	}
	return synced
}

// Lock takes the lock that PutIfMatch holds.
func Lock(t *testing.T, s *Store, k names.Key) (unlock func()) {
	t.Helper()
	unlock, err := s.lock(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}

// Current returns the open folder of a store, as each method takes it at its start.
func Current(s *ReadOnly) *Store { return s.current() }

// AsNetworkFS makes the file system of a folder count as a network file system until undo is
// called.
func AsNetworkFS(t *testing.T, folder string) (undo func()) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		t.Fatal(err)
	}
	before := maps.Clone(networkFS)
	networkFS[int64(st.Type)&0xffffffff] = "testfs"
	return func() { networkFS = before }
}

// SetClock makes the clock of all stores fast by some time, until the test ends. Names that change
// before and after it have different times.
func SetClock(t *testing.T, fast time.Duration) {
	t.Helper()
	time.Sleep(20 * time.Millisecond) // above the resolution of all file systems with states
	t.Cleanup(func() { clock = time.Now })
	clock = func() time.Time { return time.Now().Add(fast) }
}

// SetMinParts makes listings with parts of a minimum size in bytes, until the test ends.
func SetMinParts(t *testing.T, size int64) {
	t.Helper()
	before := minParts
	t.Cleanup(func() { minParts = before })
	minParts = size
}

// RecordsChanges reports whether the folders of a store have states.
func RecordsChanges(s *Store) bool {
	_, ok := s.recordsChanges()
	return ok
}

// FoldersToSync returns the folders that the first Sync of a store syncs.
func FoldersToSync(s *Store) []string {
	dirs, _, _ := s.takeDirty()
	return dirs
}

// DataFolders returns the folders of data, while a put has the lock of s.
func DataFolders(s *Store) (count int, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, complete := s.dataFolders()
	return len(found), complete
}
