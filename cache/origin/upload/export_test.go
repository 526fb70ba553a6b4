package upload

// RefreshIndex does what Dedup starts in the background from time to time.
func (s *Store) RefreshIndex() error { return s.index.update() }
