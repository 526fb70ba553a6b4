package dir

import (
	"maps"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// ShortenSettleTimes makes settleTime and copyTime shorter until the test ends. They are above the
// resolution of the times of all file systems whose folders have states.
func ShortenSettleTimes(t *testing.T) (settle time.Duration) {
	t.Helper()
	beforeSettle, beforeCopy := settleTime, copyTime
	settleTime, copyTime = 10*time.Millisecond, 20*time.Millisecond
	t.Cleanup(func() { settleTime, copyTime = beforeSettle, beforeCopy })
	return copyTime
}

// RecordsChanges reports whether the folders of a store have states.
func RecordsChanges(s *Store) bool {
	_, ok := s.recordsChanges()
	return ok
}

// FoldersToSync returns the folders that the first Sync of a store syncs.
func FoldersToSync(s *Store) []string {
	dirs, _ := s.takeDirty()
	return dirs
}
