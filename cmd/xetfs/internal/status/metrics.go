package status

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xetfs/xetfs/cache/histogram"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
)

// A metric is a row of the table of all metrics.
type metric struct {
	name   string
	help   string
	gauge  bool     // else a counter
	labels []string // besides that of the mount or server
	// collect reports each value with its labels.
	collect func(s *Stats, report func(value float64, labels ...string))
}

// metricTable has the stable names, which the topic statistics documents, and the experimental ones.
// No label holds the name of a file.
var metricTable = []metric{
	{"xetfs_fuse_errors_total", "Replies to the kernel with an error that a program does not expect.", false, []string{"operation"},
		func(s *Stats, report func(float64, ...string)) {
			for name, op := range s.Operations {
				report(float64(op.Errors), name)
			}
		}},
	{"xetfs_read_bytes_total", "Bytes in the replies to reads of programs, without pushed files.", false, nil,
		func(s *Stats, report func(float64, ...string)) {
			if s.Server == nil {
				report(float64(s.Files.Bytes))
			}
		}},
	{"xetfs_pushed_files_total", "Small files sent to the page cache before a read.", false, nil,
		func(s *Stats, report func(float64, ...string)) {
			if s.Server == nil {
				report(float64(s.Files.Pushed))
			}
		}},
	{"xetfs_pushed_bytes_total", "Bytes of small files sent to the page cache before a read.", false, nil,
		func(s *Stats, report func(float64, ...string)) {
			if s.Server == nil {
				report(float64(s.Files.PushedBytes))
			}
		}},
	{"xetfs_source_bytes_total", "Bytes of files by source. Reads of xetfs itself count, too.", false, []string{"source"},
		func(s *Stats, report func(float64, ...string)) {
			report(float64(s.Bytes.Memory), "memory")
			report(float64(s.Bytes.Disk), "disk")
			report(float64(s.Bytes.Origin), "origin")
			report(float64(s.Bytes.Catalog), "catalog")
			report(float64(s.Bytes.Passthrough), "passthrough")
		}},
	{"xetfs_origin_requests_total", "Requests to the origin.", false, nil,
		func(s *Stats, report func(float64, ...string)) { report(float64(s.Origin.Requests)) }},
	{"xetfs_origin_bytes_total", "Bytes received from the origin.", false, nil,
		func(s *Stats, report func(float64, ...string)) { report(float64(s.Origin.Bytes)) }},
	{"xetfs_origin_retries_total", "Failed attempts that were repeated.", false, nil,
		func(s *Stats, report func(float64, ...string)) { report(float64(s.Origin.Retries)) }},
	{"xetfs_origin_errors_total", "Answers with an error status, answers 404, and requests without a complete answer.", false, []string{"kind"},
		func(s *Stats, report func(float64, ...string)) {
			report(float64(s.Origin.Errors), "status")
			report(float64(s.Origin.NotFound), "not_found")
			report(float64(s.Origin.Lost), "lost")
		}},
	{"xetfs_origin_failing", "1 if the last attempt at the origin failed.", true, nil,
		func(s *Stats, report func(float64, ...string)) { report(number(s.Origin.Failing)) }},
	{"xetfs_follow_failing", "1 if a mount keeps a version because the newest one cannot be shown.", true, nil,
		func(s *Stats, report func(float64, ...string)) { report(number(s.FollowError != "")) }},
	{"xetfs_corrupt_total", "Corrupt content: of the origin, of the disk cache, and errors of programs.", false, []string{"where"},
		func(s *Stats, report func(float64, ...string)) {
			report(float64(s.Damage.Origin), "origin")
			report(float64(s.Damage.Disk), "disk")
			report(float64(s.Damage.Reads), "reads")
		}},
	{"xetfs_memory_bytes", "Memory by part.", true, []string{"part"},
		func(s *Stats, report func(float64, ...string)) {
			report(float64(s.Memory.Chunks), "chunks")
			report(float64(s.Memory.Recent), "recent")
			report(float64(s.Memory.Pages), "pages")
			report(float64(s.Memory.Ahead), "ahead")
		}},
	{"xetfs_cache_bytes", "Size of the disk cache by part.", true, []string{"part"},
		func(s *Stats, report func(float64, ...string)) {
			if s.Disk != nil {
				report(float64(s.Disk.SegmentBytes), "chunks")
				report(float64(s.Disk.WholeBytes), "files")
				report(float64(s.Disk.JournalBytes), "index")
			}
		}},
	{"xetfs_cache_limit_bytes", "Limit of the disk cache.", true, nil,
		func(s *Stats, report func(float64, ...string)) {
			if s.Disk != nil {
				report(float64(s.Disk.MaxBytes))
			}
		}},
	{"xetfs_cache_state", "1 for the state of the disk cache, 0 for the others.", true, []string{"state"},
		func(s *Stats, report func(float64, ...string)) {
			if s.Disk != nil {
				for _, state := range []string{"ok", "full", "suspended", "shared"} {
					report(number(s.Disk.State == state), state)
				}
			}
		}},
	{"xetfs_shown_version", "Number of the version that a mount of one symbol shows.", true, []string{"symbol"},
		func(s *Stats, report func(float64, ...string)) {
			if len(s.Shown) == 1 && s.Shown[0].Time != nil {
				report(float64(s.Shown[0].Version), s.Shown[0].Symbol)
			}
		}},
	{"xetfs_serve_requests_total", "Requests of clients, by API.", false, []string{"route"},
		func(s *Stats, report func(float64, ...string)) {
			s.eachRoute(func(name string, r serve.RouteStats) { report(float64(r.Requests), name) })
		}},
	{"xetfs_serve_bytes_total", "Bytes of bodies that clients received, by API.", false, []string{"route"},
		func(s *Stats, report func(float64, ...string)) {
			s.eachRoute(func(name string, r serve.RouteStats) { report(float64(r.Bytes), name) })
		}},
	{"xetfs_serve_errors_total", "Answers with an error status, answers 404, and requests without a complete answer, by API.", false, []string{"route", "kind"},
		func(s *Stats, report func(float64, ...string)) {
			s.eachRoute(func(name string, r serve.RouteStats) {
				report(float64(r.Errors), name, "status")
				report(float64(r.NotFound), name, "not_found")
				report(float64(r.Lost), name, "lost")
			})
		}},
	{"xetfs_serve_waiting_requests", "Requests of clients whose answer has not ended.", true, nil,
		func(s *Stats, report func(float64, ...string)) {
			if s.Server != nil {
				report(float64(s.Server.Waiting))
			}
		}},
	{"xetfs_info", "1, with the version of xetfs.", true, []string{"version"},
		func(s *Stats, report func(float64, ...string)) { report(1, s.Process.Version) }},
	{"xetfs_start_time_seconds", "Start of the process, in seconds since 1970.", true, nil,
		func(s *Stats, report func(float64, ...string)) {
			report(float64(s.Process.Started.UnixMilli()) / 1e3)
		}},
	{"xetfs_experimental_resident_bytes", "Resident memory of the process.", true, nil,
		func(s *Stats, report func(float64, ...string)) { report(float64(s.Process.Resident)) }},
	{"xetfs_experimental_heap_bytes", "Memory of the Go heap.", true, nil,
		func(s *Stats, report func(float64, ...string)) { report(float64(s.Process.Heap)) }},
	{"xetfs_experimental_goroutines", "Goroutines.", true, nil,
		func(s *Stats, report func(float64, ...string)) { report(float64(s.Process.Goroutines)) }},
	{"xetfs_experimental_panics_total", "Handlers that panicked.", false, nil,
		func(s *Stats, report func(float64, ...string)) { report(float64(s.Damage.Panics)) }},
	{"xetfs_experimental_chunks_total", "Chunks by the place where they were found.", false, []string{"place"},
		func(s *Stats, report func(float64, ...string)) {
			report(float64(s.MemoryHits), "memory")
			report(float64(s.AheadHits), "ahead")
			report(float64(s.DiskHits), "disk")
			report(float64(s.Misses), "origin")
			report(float64(s.cacheStats.Shared), "shared")
		}},
}

// A histogramMetric is a row of the table of all histograms. Their counts are those of messages
// and answers.
type histogramMetric struct {
	name    string
	help    string
	labels  []string
	collect func(s *Stats, report func(counts histogram.Counts, labels ...string))
}

var histogramMetrics = []histogramMetric{
	{"xetfs_fuse_request_duration_seconds", "Time from a message of the kernel to its reply. The count is that of messages.", []string{"operation"},
		func(s *Stats, report func(histogram.Counts, ...string)) {
			for name, op := range s.Operations {
				report(op.Latency, name)
			}
		}},
	{"xetfs_origin_first_byte_seconds", "Time from a request to the first byte of its answer.", nil,
		func(s *Stats, report func(histogram.Counts, ...string)) { report(s.Origin.FirstByte) }},
	{"xetfs_serve_request_duration_seconds", "Time from a request of a client to the end of its answer, by API.", []string{"route"},
		func(s *Stats, report func(histogram.Counts, ...string)) {
			s.eachRoute(func(name string, r serve.RouteStats) { report(r.Latency, name) })
		}},
}

// eachRoute reports the routes of a server.
func (s *Stats) eachRoute(report func(name string, r serve.RouteStats)) {
	if s.Server == nil {
		return
	}
	for name, r := range s.Server.Routes {
		report(name, r)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// A metricCollector is the prometheus.Collector of one mount or server.
type metricCollector struct {
	stats        func() (Stats, error)
	descriptions map[string]*prometheus.Desc
}

// newMetricCollector returns a collector whose metrics have a label. Prometheus refuses values that are
// no UTF-8.
func newMetricCollector(label Label, stats func() (Stats, error)) *metricCollector {
	c := &metricCollector{stats: stats, descriptions: map[string]*prometheus.Desc{}}
	labels := prometheus.Labels{label.Name: strings.ToValidUTF8(label.Value, "\ufffd")}
	for _, m := range metricTable {
		c.descriptions[m.name] = prometheus.NewDesc(m.name, m.help, m.labels, labels)
	}
	for _, m := range histogramMetrics {
		c.descriptions[m.name] = prometheus.NewDesc(m.name, m.help, m.labels, labels)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *metricCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descriptions {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *metricCollector) Collect(to chan<- prometheus.Metric) {
	s, err := c.stats()
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.descriptions["xetfs_info"], err)
		return
	}
	for _, m := range metricTable {
		kind := prometheus.CounterValue
		if m.gauge {
			kind = prometheus.GaugeValue
		}
		m.collect(&s, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(c.descriptions[m.name], kind, value, labels...)
		})
	}
	for _, m := range histogramMetrics {
		m.collect(&s, func(h histogram.Counts, labels ...string) {
			to <- prometheus.MustNewConstHistogram(c.descriptions[m.name], uint64(h.Count), h.Seconds, cumulative(h), labels...)
		})
	}
}

// cumulative returns the number of durations up to each bound, in seconds.
func cumulative(h histogram.Counts) map[float64]uint64 {
	buckets := make(map[float64]uint64, len(histogram.Bounds))
	sum := uint64(0)
	for i, bound := range histogram.Bounds {
		if i < len(h.Classes) {
			sum += uint64(h.Classes[i])
		}
		buckets[bound.Seconds()] = sum
	}
	return buckets
}
