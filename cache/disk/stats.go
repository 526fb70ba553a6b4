package disk

// Stats are current figures, and counts since Open.
type Stats struct {
	State string `json:"state"` // "ok"; "full", "suspended" or "shared", as the errors of the same names

	Chunks int `json:"chunks"` // chunks and pages that can be found
	Wholes int `json:"wholes"` // whole files

	Bytes        int64 `json:"bytes"`      // of all files, in units of 4 KiB; at most MaxBytes
	PeakBytes    int64 `json:"peak_bytes"` // maximum of Bytes
	MaxBytes     int64 `json:"max_bytes"`
	SegmentBytes int64 `json:"segment_bytes"` // of chunks and pages, including forgotten ones
	WholeBytes   int64 `json:"whole_bytes"`
	JournalBytes int64 `json:"journal_bytes"`

	Hits      int64 `json:"hits"`   // chunks and pages found
	Misses    int64 `json:"misses"` // chunks and pages not found
	WholeHits int64 `json:"whole_hits"`

	Dropped int64 `json:"dropped"` // corrupt chunks, pages and files
	Refused int64 `json:"refused"` // runs and pages that were not accepted because the queue was full

	WrittenBytes int64 `json:"written_bytes"` // put and stored
	EvictedBytes int64 `json:"evicted_bytes"` // of evicted segments and whole files
	CopiedBytes  int64 `json:"copied_bytes"`  // of those, copied to other segments
}

// Stats returns the current figures.
func (s *Store) Stats() Stats {
	chunks, wholes := s.disk.Load().index.Len()
	c := &s.stats
	return Stats{
		State:        s.state(),
		Chunks:       chunks,
		Wholes:       wholes,
		Bytes:        c.used.Load(),
		PeakBytes:    c.peak.Load(),
		MaxBytes:     s.o.MaxBytes,
		SegmentBytes: c.segmentBytes.Load(),
		WholeBytes:   c.fileBytes.Load(),
		JournalBytes: c.journalBytes.Load(),
		Hits:         c.hits.Load(),
		Misses:       c.misses.Load(),
		WholeHits:    c.fileHits.Load(),
		Dropped:      c.dropped.Load(),
		Refused:      c.refused.Load(),
		WrittenBytes: c.written.Load(),
		EvictedBytes: c.evicted.Load(),
		CopiedBytes:  c.copied.Load(),
	}
}

func (s *Store) state() string {
	switch {
	case s.Shared():
		return "shared"
	case s.health.suspended.Load():
		return "suspended"
	case s.health.full():
		return "full"
	}
	return "ok"
}
