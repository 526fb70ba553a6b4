package integration

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
	"github.com/xetfs/xetfs/reconstruct"
)

// hubKinds are the contents of files in a virtual Hub: text is packed to a third.
var hubKinds = map[string]struct {
	content func(seed uint64, n int64) io.Reader
	scheme  xorb.Scheme
}{
	"text": {harness.TextContent, xorb.LZ4},
	"f32":  {harness.NoiseContent, xorb.None},
}

// inVirtualHub calls do with one file of a server of plans, in a bubble. Its memory is that of a
// mount with --memory=128MiB.
func inVirtualHub(t *testing.T, kind string, size int64, o casserve.HandlerOptions, through func(http.Handler) http.Handler, do func(v *virtual)) {
	t.Helper()
	const chunk = 61_000 // so that chunks do not end where steps of readahead end
	content, err := io.ReadAll(hubKinds[kind].content(1, size))
	if err != nil {
		t.Fatal(err)
	}
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000, Schemes: []xorb.Scheme{hubKinds[kind].scheme}})
	v := &virtual{t: t, files: []virtualFile{{b.Add(content, chunk).ID(), content}}}
	for _, x := range b.Xorbs {
		v.stored += int64(len(x.Bytes))
	}
	store := origintest.Memory()
	b.Put(store)
	synctest.Test(t, func(t *testing.T) {
		v.t, v.web = t, origintest.NewWeb(store)
		const address = "http://remote.example"
		o.Base = func(*http.Request) string { return address }
		plans := casserve.NewHandler(casserve.NewContent(store, objects.New(store, objects.Options{}).(casserve.InfoSource), casserve.StoreOptions{}), o)
		handler := v.count(through(v.countPlans(plans)))
		client := cas.NewClient(cas.Options{
			Tokens: cas.StaticToken(address, ""),
			Fetch:  fetch.Options{Transport: origintest.Transport(handler), Limits: fetch.Limits{First: 30 * time.Second, Read: time.Minute}},
		})
		defer client.Close()
		c, err := cache.New(wrap.Limit(client, 48), cache.Options{MemoryBytes: 72 << 20, AheadBytes: 32 << 20})
		if err != nil {
			t.Fatal(err)
		}
		v.r = reconstruct.New(c, reconstruct.Options{})
		do(v)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// countPlans counts the requests for plans and for data.
func (v *virtual) countPlans(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("X-Xet-Signed-Range") {
			v.transfers.Add(1)
		} else {
			v.plans.Add(1)
		}
		h.ServeHTTP(w, r)
	})
}

// P14 without the time of the machine: a file is read in a row over a link. The bounds are below
// the targets, because the order of goroutines changes the figures by a tenth.
func TestP14_Links(t *testing.T) {
	t.Parallel() // it uses one core
	for _, l := range []hubLink{
		{"all 100 MB", faulty.Options{Bandwidth: 100_000_000}, map[string]float64{"text": 70e6, "f32": 90e6}},
		{"each 10 MB", faulty.Options{Each: 10_000_000}, map[string]float64{"text": 60e6, "f32": 40e6}},
		{"each 50 MB", faulty.Options{Each: 50_000_000}, map[string]float64{"text": 200e6, "f32": 180e6}},
		{"no limit", faulty.Options{}, map[string]float64{"text": 240e6, "f32": 600e6}},
	} {
		l.o.Delay = harness.RemoteDelay
		for kind := range hubKinds {
			for how, o := range map[string]casserve.HandlerOptions{"": {}, ", exact ranges": {ExactRanges: true}} {
				if how != "" && !*fullSize {
					continue
				}
				t.Run(l.name+", "+kind+how, func(t *testing.T) {
					through := func(h http.Handler) http.Handler { return faulty.Handler(h, l.o) }
					inVirtualHub(t, kind, hubSize, o, through, func(v *virtual) { v.scanHub(l, l.least[kind]*leastPart(o)) })
				})
			}
		}
	}
}

// hubSize is the size of the file of TestP14_Links.
const hubSize = 160 << 20

// A hubLink is a link of P14.
type hubLink struct {
	name  string
	o     faulty.Options
	least map[string]float64 // bytes per second, by content
}

// leastPart is the part of the bounds that a server of whole signed ranges needs.
func leastPart(o casserve.HandlerOptions) float64 {
	if o.ExactRanges {
		return 0.5
	}
	return 1
}

// scanHub reads a file in a row, 1 MiB at a time, the first 4 KiB apart. least is in bytes per second.
func (v *virtual) scanHub(l hubLink, least float64) {
	const ramp, step = 4 << 20, 1 << 20
	start := time.Now()
	h, err := v.handle(0)
	if err != nil {
		v.t.Fatal(err)
	}
	defer h.Close()
	first := v.mustRead(h, 0, 0, 4096)
	size := int64(len(v.files[0].want))
	var longest time.Duration
	ramped, before := start, int64(0)
	for off := int64(4096); off < size; {
		if off == ramp {
			ramped, before = time.Now(), v.bytes.Load()
		}
		n := step - int(off%step)
		took := v.mustRead(h, 0, off, n)
		longest = max(longest, took)
		off += int64(n)
	}
	seconds := time.Since(ramped).Seconds()
	arrived := float64(v.bytes.Load() - before)
	v.t.Logf("first %v; %.1f MB/s; longest read %v; %d bytes, %d plans, %d transfers for %d MiB",
		first, arrived/seconds/1e6, longest, v.bytes.Load(), v.plans.Load(), v.transfers.Load(), size>>20)
	if arrived/seconds < least {
		v.t.Errorf("%.1f MB/s, want %.1f", arrived/seconds/1e6, least/1e6)
	}
	if l.o.Bandwidth > 0 && longest > 150*time.Millisecond {
		v.t.Errorf("the longest read took %v", longest)
	}
	// A step of readahead is a plan and a transfer. Some smaller ones come before it.
	if steps := size / origin.ReadaheadStep; v.plans.Load() > steps+20 || v.transfers.Load() > steps+20 {
		v.t.Errorf("%d plans, %d transfers for %d steps", v.plans.Load(), v.transfers.Load(), steps)
	}
	if float64(v.bytes.Load()) > 1.06*float64(v.stored) {
		v.t.Errorf("%d bytes for %d", v.bytes.Load(), v.stored)
	}
}
