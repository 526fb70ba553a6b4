package fs

import "sync/atomic"

// counters count what the kernel asked about open files since the mount.
type counters struct {
	opens, passed  atomic.Int64
	reads, spliced atomic.Int64
	bytes          atomic.Int64
}

// counts are figures of now, as user.xet.stats shows them.
type counts struct {
	Open        int64 `json:"open"`        // OPEN messages
	Passthrough int64 `json:"passthrough"` // of those, answered with a file that the kernel reads by itself
	Read        int64 `json:"read"`        // READ messages
	Spliced     int64 `json:"spliced"`     // of those, answered with the pages of a whole file on disk
	Bytes       int64 `json:"bytes"`       // that answer READ messages
}

func (c *counters) now() counts {
	return counts{
		Open:        c.opens.Load(),
		Passthrough: c.passed.Load(),
		Read:        c.reads.Load(),
		Spliced:     c.spliced.Load(),
		Bytes:       c.bytes.Load(),
	}
}
