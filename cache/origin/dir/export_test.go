package dir

import (
	"maps"
	"os"

	"golang.org/x/sys/unix"
)

// Dirty returns the folders that the next Sync will make durable.
func (s *Keyed) Dirty() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.dirty)
}

// NoLinks makes s believe that the file system has no hard links.
func (s *Keyed) NoLinks() {
	s.hard = func(from, to string) error { return &os.LinkError{Op: "linkat", Old: from, New: to, Err: unix.EPERM} }
}
