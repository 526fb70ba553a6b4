package fs

import "sync/atomic"

// counters count messages about open files since the mount.
type counters struct {
	opens, passed  atomic.Int64
	reads, spliced atomic.Int64
	bytes          atomic.Int64
}

// counts are the current values of counters, for user.xet.stats.
type counts struct {
	Open        int64 `json:"open"`        // OPEN messages
	Passthrough int64 `json:"passthrough"` // replies with passthrough
	Read        int64 `json:"read"`        // READ messages
	Spliced     int64 `json:"spliced"`     // replies that splice pages of a materialized file
	Bytes       int64 `json:"bytes"`       // in the replies to READ
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
