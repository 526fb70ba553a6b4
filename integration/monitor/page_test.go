package monitor

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A figures is a document /stats.json.
type figures map[string]any

// at returns the value at a path like "origin.requests".
func (f figures) at(path string) (value any) {
	value = map[string]any(f)
	for _, key := range strings.Split(path, ".") {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

// number is at for a number.
func (f figures) number(path string) float64 {
	n, _ := f.at(path).(float64)
	return n
}

// readFigures returns the document /stats.json of a page.
func readFigures(t *testing.T, address string) (f figures) {
	t.Helper()
	resp, err := http.Get(address + "stats.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// A shown is what the page shows at one time, and the document that it has drawn.
type shown struct {
	Stats   figures
	Figures map[string]string // by path
	Rates   map[string]string // by series
	Count   string            // of the histogram
	Ratio   string
	State   string
	Empty   []string // panels without a drawing
	Before  figures  // the document before, for the rates
}

// read returns what the page shows.
func (b *tab) read() (s shown) {
	b.t.Helper()
	return run(b, chromedp.Evaluate[shown](`(() => {
  const data = (name, key) => Object.fromEntries([...document.querySelectorAll("[data-" + name + "]")].map((e) => [e.dataset[name], e.dataset[key]]));
  const isDrawn = (panel) => [...panel.querySelectorAll("svg")].every((svg) => [...svg.querySelectorAll("rect")].some((r) => r.getBoundingClientRect().height >= 1)) &&
    [...panel.querySelectorAll("dl, table, ul")].every((list) => list.children.length > 0) && [...panel.querySelectorAll(".large")].every((e) => e.textContent !== "-");
  return {
    Stats: last, Figures: data("figure", "value"), Rates: data("rate", "value"), Count: document.getElementById("latency-text").dataset.count,
    Ratio: document.getElementById("ratio").textContent, State: document.getElementById("state").textContent,
    Empty: [...document.querySelectorAll("main section")].filter((p) => !p.hidden && !isDrawn(p)).map((p) => p.querySelector("h2").textContent),
  };
})()`))
}

// await reads the page until is reports true.
func (b *tab) await(what string, is func(shown) bool) (s shown) {
	b.t.Helper()
	harness.WaitUntil(b.t, what, func() bool {
		s = b.read()
		return is(s)
	})
	return s
}

// differences returns the figures of the page that are not those of a document. except names paths
// that are not compared.
func (s *shown) differences(want figures, except ...string) (all []string) {
	if len(s.Figures) < 20 {
		all = append(all, fmt.Sprintf("the page has %d figures", len(s.Figures)))
	}
	for path, text := range s.Figures {
		got, err := strconv.ParseFloat(text, 64)
		if value, ok := want.at(path).(float64); !slices.Contains(except, path) && (err != nil || !ok || got != value) {
			all = append(all, fmt.Sprintf("%s: the page shows %s, /stats.json has %v", path, text, want.at(path)))
		}
	}
	return all
}

// ratio returns the share of bytes that did not come from the origin, as the page shows it.
func ratio(f figures) string {
	local := f.number("bytes.memory") + f.number("bytes.disk") + f.number("bytes.catalog")
	all := local + f.number("bytes.origin")
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", local*100/all)
}

// An origin is a proxy of a server whose answers can fail.
type originProxy struct {
	URL   string
	fails atomic.Bool
}

func newOriginProxy(t *testing.T, address string) *originProxy {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &originProxy{}
	through := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.fails.Load() {
			http.Error(w, "no answer today", http.StatusServiceUnavailable)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL + "/"
	return p
}

// files is the number of files of the published folder, and fileSize the size of each.
const files, fileSize = 24, 1 << 20

// publishFiles publishes files of random bytes, and a small one that the index has.
func publishFiles(t *testing.T) (store string) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "store")
	folder := filepath.Join(t.TempDir(), "folder")
	for i := range files {
		harness.WriteFile(t, filepath.Join(folder, fmt.Sprintf("%02d.bin", i)), harness.Noise(uint64(i), fileSize))
	}
	harness.WriteFile(t, filepath.Join(folder, "small"), []byte("a small file"))
	harness.Publish(t, store, "org/model", folder)
	return store
}

// A load reads the files of a mount in turn, until it stops.
type load struct {
	stopped atomic.Bool
	ended   sync.WaitGroup
}

// startLoad reads the first n files again and again, and looks for names that are absent.
func startLoad(folder string, n int) *load {
	l := &load{}
	l.ended.Go(func() {
		for i := 0; !l.stopped.Load(); i++ {
			_, _ = os.ReadDir(folder)
			_, _ = os.Stat(filepath.Join(folder, fmt.Sprintf("absent-%d", i)))
			_, _ = os.ReadFile(filepath.Join(folder, "small"))
			dropped, err := os.Open(filepath.Join(folder, fmt.Sprintf("%02d.bin", i%n)))
			if err != nil {
				continue
			}
			_, _ = io.Copy(io.Discard, dropped)
			_ = dropFromPages(dropped)
			dropped.Close()
		}
	})
	return l
}

func (l *load) stop() {
	l.stopped.Store(true)
	l.ended.Wait()
}

// The page of a mount shows the figures of /stats.json during and after a load. It shows a failing
// origin and an ended mount after at most two polls, which are a second apart.
func TestMountPage(t *testing.T) {
	b := newTab(t)
	server := harness.ServeRemote(t, publishFiles(t))
	origin := newOriginProxy(t, server.URL)
	m := harness.MountAt(t, origin.URL, mountpoint(t), "--status=127.0.0.1:0", "--cache-dir="+t.TempDir(), "--cache-size=64MiB", "--memory=32MiB")
	ready, ok := m.Log.Wait(harness.Patience, harness.Event("status_ready"))
	if !ok {
		t.Fatalf("no page:\n%s", m.Log)
	}
	address := ready.Text("address")
	b.open(address)

	l := startLoad(m.Path("org/model"), files/2)
	defer l.stop()
	s := b.await("the page has drawn its panels", func(s shown) bool { return len(s.Empty) == 0 })
	for _, d := range s.differences(s.Stats) {
		t.Error(d)
	}
	checkRates(t, b)
	b.looks()
	b.takeScreenshot("statuspage.png", `rates.length >= 30`)
	l.stop()

	// The cache stores files for some time after the load. The memory of the process changes always.
	s = b.await("the page shows /stats.json", func(s shown) bool {
		return len(s.differences(readFigures(t, address), "process.resident_bytes")) == 0
	})
	if want := ratio(s.Stats); s.Ratio != want {
		t.Errorf("the page shows a hit ratio of %s, want %s", s.Ratio, want)
	}
	if want := s.Stats.number("operations.read.latency.count"); s.Count != fmt.Sprint(want) {
		t.Errorf("the histogram has %s reads, want %v", s.Count, want)
	}
	b.quiet(address)

	origin.fails.Store(true)
	var readers sync.WaitGroup
	readers.Go(func() { _, _ = os.ReadFile(m.Path(fmt.Sprintf("org/model/%02d.bin", files-1))) })
	harness.WaitUntil(t, "the figures name the failure", func() bool { return readFigures(t, address).at("origin.failing") == true })
	before := b.sent("stats.json")
	b.await("the page shows the failing origin", func(s shown) bool { return s.State == "the origin fails" })
	if n := b.sent("stats.json") - before; n > 2 {
		t.Errorf("the failing origin was visible after %d polls", n)
	}
	if s := b.text(`document.getElementById("origin-state").textContent`); !strings.Contains(s, "503") {
		t.Errorf("the panel of the origin shows %q", s)
	}
	origin.fails.Store(false)
	readers.Wait()
	b.await("the page shows that the origin answers", func(s shown) bool { return s.State == "serving" })
	b.quiet(address)

	m.Signal(syscall.SIGTERM)
	if code, ok := m.Wait(harness.UnmountLimit); !ok || code != 0 {
		t.Fatalf("exit status %d, %v", code, ok)
	}
	m.Ended = true
	before = b.sent("stats.json")
	b.await("the page shows the end of the mount", func(s shown) bool { return strings.HasPrefix(s.State, "the mount has ended") })
	if n := b.sent("stats.json") - before; n > 2 {
		t.Errorf("the end of the mount was visible after %d polls", n)
	}
}

// The page of a server shows the figures of /stats.json during and after requests of clients, and
// the end of the server.
func TestServerPage(t *testing.T) {
	b := newTab(t)
	address, page, stop := startServer(t, publishFiles(t), "--cache-dir="+t.TempDir())
	b.open(page)
	requests := 0
	get := func(path string) {
		requests++
		resp, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	b.await("the page has drawn its panels", func(s shown) bool {
		for i := range files / 2 {
			get(fmt.Sprintf("org/model/resolve/main/%02d.bin", i))
		}
		get("org/model/resolve/main/absent")
		get("api/models/org/model")
		return len(s.Empty) == 0
	})
	s := b.await("the page shows /stats.json", func(s shown) bool {
		return len(s.differences(readFigures(t, page), "process.resident_bytes")) == 0
	})
	if got := s.Stats.number("server.routes.hub.requests"); got != float64(requests) || s.Figures["server.routes.hub.requests"] != fmt.Sprint(requests) {
		t.Errorf("the page shows %v requests of %d", got, requests)
	}
	if want := ratio(s.Stats); s.Ratio != want || want == "-" {
		t.Errorf("the page shows a hit ratio of %s, want %s", s.Ratio, want)
	}
	b.looks()
	b.takeScreenshot("serverpage.png", "true")
	b.quiet(page)
	stop()
	before := b.sent("stats.json")
	b.await("the page shows the end of the server", func(s shown) bool { return strings.HasPrefix(s.State, "the server has ended") })
	if n := b.sent("stats.json") - before; n > 2 {
		t.Errorf("the end of the server was visible after %d polls", n)
	}
}

// checkRates compares the rates of the page with the two last documents.
func checkRates(t *testing.T, b *tab) {
	t.Helper()
	first := b.read()
	second := b.await("the next poll", func(s shown) bool { return s.Stats.at("process.now") != first.Stats.at("process.now") })
	seconds := secondsBetween(t, first.Stats, second.Stats)
	if b.text(`String(rates.length)`) == "0" {
		t.Error("the page has no rates")
	}
	if seconds > 1.9 {
		t.Logf("a poll between the documents was missed: %v s", seconds)
		return
	}
	for name, text := range second.Rates {
		got, err := strconv.ParseFloat(text, 64)
		want := (second.Stats.number("bytes."+name) - first.Stats.number("bytes."+name)) / seconds
		if err != nil || math.Abs(got-want) > 1+want*0.01 {
			t.Errorf("%s: the page shows %s B/s, the documents give %.0f", name, text, want)
		}
	}
}
