package dir

import "maps"

// Dirty returns the folders that the next Sync will make durable.
func (s *Keyed) Dirty() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.dirty)
}
