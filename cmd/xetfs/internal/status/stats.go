package status

import (
	"cmp"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/fs"
)

// Stats are all figures of a mount or of a server. They are the value of user.xet.stats and the
// document /stats.json.
type Stats struct {
	cacheStats
	mountStats
	Server  *Server     `json:"server,omitempty"` // nil: of a mount
	Bytes   Bytes       `json:"bytes"`
	Origin  fetch.Stats `json:"origin"`
	Damage  Damage      `json:"damage"`
	Process Process     `json:"process"`
}

// Server are the requests to a server.
type Server struct {
	serve.Stats
	Routes map[string]serve.RouteStats `json:"routes"` // by API
}

// Aliases give the embedded structs different names.
type (
	cacheStats = cache.Stats
	mountStats = fs.Stats
)

// Bytes are the bytes of files by source. Reads of xetfs itself count, too.
type Bytes struct {
	Memory      int64 `json:"memory"`      // unpacked for an earlier or concurrent read
	Disk        int64 `json:"disk"`        // of the disk cache: packed chunks, and plain files read through xetfs
	Origin      int64 `json:"origin"`      // unpacked; Origin.Bytes are those transferred
	Catalog     int64 `json:"catalog"`     // of small files inside index pages
	Passthrough int64 `json:"passthrough"` // sizes of the files that the kernel reads directly, at each open
}

// Damage counts corrupt objects.
type Damage struct {
	Origin int64 `json:"origin"` // reads that found corrupt content of the origin; a retry counts again
	Disk   int64 `json:"disk"`   // corrupt chunks, pages and files that the disk cache dropped
	Reads  int64 `json:"reads"`  // errors of programs because of corrupt content
	Panics int64 `json:"panics"` // handlers that panicked
}

// Process describes the process of a mount or of a server.
type Process struct {
	Source     string    `json:"source"`
	Mountpoint string    `json:"mountpoint"`        // "": the process is a server
	Address    string    `json:"address,omitempty"` // URL of a server
	Version    string    `json:"version"`           // of xetfs
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Now        time.Time `json:"now"`
	Heap       int64     `json:"heap_bytes"`     // of live objects and garbage
	Resident   int64     `json:"resident_bytes"` // of the process; 0: unknown
	Goroutines int64     `json:"goroutines"`

	VersionsDir string `json:"versions_dir,omitempty"` // value of --versions-dir; "": the process is a server
}

// A Collector returns the figures of one mount or server. It is safe for concurrent use.
type Collector struct {
	Process  Process         // the fields that do not change
	Source   *stack.Source   // nil: a server without caches
	Counters *fetch.Counters // of the requests to SOURCE if Source is nil; nil: SOURCE is local
}

// CollectServer returns the figures of a server.
func (c *Collector) CollectServer(count *serve.Counter) Stats {
	s := c.Collect(fs.Stats{})
	s.Server = &Server{count.Stats(), count.Routes()}
	return s
}

// Collect adds all other figures to those of the mount.
func (c *Collector) Collect(mount fs.Stats) Stats {
	s := Stats{mountStats: mount, Origin: c.origin(), Process: c.Process}
	if c.Source != nil {
		s.cacheStats = c.Source.Reader.Stats()
		s.FollowError = cmp.Or(s.FollowError, c.Source.FollowError())
	}
	s.Bytes = Bytes{
		Memory: s.FromMemory, Disk: s.FromDisk + mount.PlainBytes, Origin: s.FromOrigin,
		Catalog: mount.InlineBytes, Passthrough: mount.PassthroughBytes,
	}
	s.Damage = Damage{Origin: s.cacheStats.Corrupt, Reads: mount.Corrupt, Panics: mount.Panics}
	if s.Disk != nil {
		s.Damage.Disk = s.Disk.Dropped
	}
	p := &s.Process
	p.Now, p.Resident = time.Now(), residentBytes()
	p.Heap, p.Goroutines = runtimeFigures()
	return s
}

// origin returns the requests to SOURCE. A local SOURCE has calls instead of requests, and no
// times.
func (c *Collector) origin() fetch.Stats {
	counters := c.Counters
	if c.Source != nil {
		counters = c.Source.Counters
	}
	if counters != nil {
		return counters.Load()
	}
	if c.Source == nil {
		return fetch.Stats{}
	}
	calls := c.Source.Requests.Load()
	return fetch.Stats{Requests: calls.Requests, Bytes: calls.Bytes, Errors: calls.Errors}
}

// residentBytes returns the resident memory of this process; 0: unknown.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	words := strings.Fields(string(text))
	if err != nil || len(words) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// runtimeFigures returns the size of the heap and the number of goroutines.
func runtimeFigures() (heap, goroutines int64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64()) //nolint:gosec // far below
}
