package fs

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/fs/meter"
	"github.com/xetfs/xetfs/fs/sequence"
)

// Stats are the figures of a mount since its start.
type Stats struct {
	Files      FileStats              `json:"fuse"`
	Operations map[string]meter.Stats `json:"operations"` // by name, those with messages

	PlainBytes       int64 `json:"-"` // of plain files on disk, in replies to READ
	InlineBytes      int64 `json:"-"` // of files inside index pages, in replies to READ and pushed
	PassthroughBytes int64 `json:"-"` // sizes of the files that the kernel reads directly, counted at each open

	Corrupt int64     `json:"-"`      // errors of programs because of corrupt content
	Panics  int64     `json:"-"`      // handlers that panicked
	Errors  []Failure `json:"errors"` // the last ones, oldest first
	Shown   []Shown   `json:"shown"`  // the trees in use, at most MaxShown

	FollowError string `json:"follow_error,omitempty"` // event and reason why a version is not followed
}

// FileStats are messages about open files.
type FileStats struct {
	Open        int64 `json:"open"`        // OPEN messages
	Passthrough int64 `json:"passthrough"` // replies with passthrough
	Read        int64 `json:"read"`        // READ messages
	Spliced     int64 `json:"spliced"`     // replies that splice pages of a materialized file
	Bytes       int64 `json:"bytes"`       // in the replies to READ

	Announced       int64 `json:"announced"`        // files that were expected to be opened next
	AnnouncedOpened int64 `json:"announced_opened"` // those that were opened

	Pushed      int64 `json:"pushed"`       // files whose content was sent to the page cache before a read
	PushedBytes int64 `json:"pushed_bytes"` // of those
}

// Shown is a version that a mount shows.
type Shown struct {
	Symbol  string     `json:"symbol,omitempty"`  // "": SOURCE has no symbols
	Version uint64     `json:"version,omitempty"` // 0: the tree has no number
	Root    string     `json:"tindex,omitempty"`  // hash of the root page, as in user.xet.tindex
	Time    *time.Time `json:"time,omitempty"`    // of the publish
}

// MaxShown bounds Stats.Shown: an extended attribute has at most 64 KiB.
const MaxShown = 32

// maxFollowError bounds Stats.FollowError, in bytes.
const maxFollowError = 300

// counters count events since the mount.
type counters struct {
	opens, passed, passedBytes     atomic.Int64
	reads, spliced                 atomic.Int64
	bytes, plainBytes, inlineBytes atomic.Int64
	pushed, pushedBytes            atomic.Int64
}

// addBytes counts the bytes of a reply to READ that is not spliced.
func (c *counters) addBytes(h *fileHandle, n int64) {
	c.bytes.Add(n)
	switch h.reader.(type) {
	case inlineReader:
		c.inlineBytes.Add(n)
	case backingReader:
		c.plainBytes.Add(n)
	}
}

func (c *counters) files(s sequence.Stats) FileStats {
	return FileStats{c.opens.Load(), c.passed.Load(), c.reads.Load(), c.spliced.Load(), c.bytes.Load(), s.Announced, s.Opened, c.pushed.Load(), c.pushedBytes.Load()}
}

// Stats returns the value of user.xet.stats, a JSON object.
func (s *Server) Stats() ([]byte, error) { return s.files.statsJSON() }

func (f *filesystem) stats() Stats {
	c := &f.counters
	followErr, _ := f.followErr.Load().(string)
	return Stats{
		Files:            c.files(f.sequences.Stats()),
		Operations:       f.messages.Stats(),
		PlainBytes:       c.plainBytes.Load(),
		InlineBytes:      c.inlineBytes.Load(),
		PassthroughBytes: c.passedBytes.Load(),
		Corrupt:          f.reports.corrupt.Load(),
		Panics:           f.panics.Load(),
		Errors:           f.reports.failures(),
		Shown:            f.shown(),
		FollowError:      followErr,
	}
}

// shown returns the trees in use, by symbol.
func (f *filesystem) shown() (all []Shown) {
	if s, ok := f.root.nested.(*symbols); ok {
		for _, v := range s.all() {
			all = append(all, v.shown())
		}
		slices.SortFunc(all, func(a, b Shown) int { return cmp.Compare(a.Symbol, b.Symbol) })
		return all[:min(len(all), MaxShown)]
	}
	return []Shown{f.root.shown()}
}

func (v *volume) shown() Shown {
	row := v.current.Load().row
	s := Shown{Symbol: v.symbol}
	if !row.Identity.IsZero() {
		s.Root = row.Identity.String()
	}
	if !row.Time.IsZero() {
		s.Version, s.Time = row.Number, &row.Time
	}
	return s
}

// statsText returns the value of user.xet.stats.
func (f *filesystem) statsText() (string, fuse.Status) {
	text, err := f.statsJSON()
	if err != nil {
		return "", fuse.EIO
	}
	return string(text), fuse.OK
}

func (f *filesystem) statsJSON() ([]byte, error) {
	if f.allStats != nil {
		return json.Marshal(f.allStats(f.stats()))
	}
	of, err := json.Marshal(f.engine.stats())
	all := make(map[string]json.RawMessage)
	if err == nil {
		err = json.Unmarshal(of, &all)
	}
	if err == nil {
		all["fuse"], err = json.Marshal(f.stats().Files)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}
