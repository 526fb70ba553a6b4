package dir

import (
	"maps"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Dirty returns the folders that the next Sync will make durable.
func (s *Store) Dirty() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.dirty)
}

// NoLinks makes s believe that the file system has no hard links.
func (s *Store) NoLinks() {
	s.hard = func(from, to string) error { return &os.LinkError{Op: "linkat", Old: from, New: to, Err: unix.EPERM} }
}

// The file system of a folder counts as one of the network, until undo is called.
func Afar(t *testing.T, folder string) (undo func()) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		t.Fatal(err)
	}
	before := maps.Clone(afar)
	afar[int64(st.Type)&0xffffffff] = "far away"
	return func() { afar = before }
}
