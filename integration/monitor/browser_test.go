package monitor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A tab is a tab of a headless Chromium. It records requests and messages.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string // addresses; guarded by mu
	messages []string // of console, scripts and browser; guarded by mu
}

// newTab starts a Chromium with one empty tab. It has no network but loopback.
func newTab(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(need(t, "chromium")),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(harness.Patience),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("hide-scrollbars", false),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // its sandbox refuses root
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	b := &tab{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, b.record)
	for _, enable := range []func() error{
		func() error { return call(ctx, network.Enable, network.EnableParams{}) },
		func() error { return call(ctx, runtime.Enable, cdp.Empty{}) },
		func() error { return call(ctx, log.Enable, cdp.Empty{}) },
	} {
		if err == nil {
			err = enable()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// call is chromedp.Call without its result.
func call[P, R any](ctx context.Context, cmd cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, cmd, params)
	return err
}

// record stores the events of a tab.
func (b *tab) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventConsoleAPICalled:
		for _, arg := range e.Args {
			b.messages = append(b.messages, fmt.Sprintf("console.%s: %s%s", e.Type, arg.Value, arg.Description))
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if of := e.ExceptionDetails.Exception; of != nil {
			text += " " + of.Description
		}
		b.messages = append(b.messages, text)
	case *log.EventEntryAdded:
		b.messages = append(b.messages, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	}
}

// run runs an action, and fails the test if that fails or hangs.
func run[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// open opens an address.
func (b *tab) open(address string) {
	b.t.Helper()
	run(b, chromedp.Navigate(address))
}

// text returns the value of a JavaScript expression that is a string.
func (b *tab) text(expression string) string {
	b.t.Helper()
	return run(b, chromedp.Evaluate[string](expression))
}

// sent returns the number of requests whose address has a suffix.
func (b *tab) sent(suffix string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		if strings.HasSuffix(r, suffix) {
			n++
		}
	}
	return n
}

// quiet fails the test if there was a message, or a request to an address without one of some prefixes.
func (b *tab) quiet(prefixes ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		b.t.Errorf("message of the browser: %s", m)
	}
	for _, r := range b.requests {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(r, p) }) {
			b.t.Errorf("request to %s", r)
		}
	}
	if len(b.requests) == 0 {
		b.t.Error("no request")
	}
}

// The widths of screens, in pixels, and the schemes of colours.
var (
	widths  = []int64{320, 360, 480, 640, 768, 1024, 1280, 1600}
	schemes = []string{"light", "dark"}
)

// resize sets the size of the screen and the scheme.
func (b *tab) resize(width, height int64, scheme string) {
	b.t.Helper()
	err := call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
	if err == nil {
		scheme := &emulation.MediaFeature{Name: "prefers-color-scheme", Value: scheme}
		err = call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{scheme}})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// looks checks a page in all widths and schemes.
func (b *tab) looks() {
	b.t.Helper()
	for _, scheme := range schemes {
		for _, width := range widths {
			b.resize(width, 900, scheme)
			if problem := b.text(outside); problem != "" {
				b.t.Errorf("%d pixels, %s: %s", width, scheme, problem)
			}
		}
		if problem := b.text(contrast(scheme)); problem != "" {
			b.t.Errorf("%s: %s", scheme, problem)
		}
	}
}

// outside names the elements that exceed the width of the screen.
const outside = `(() => {
  const width = document.documentElement.clientWidth, wide = [];
  if (document.documentElement.scrollWidth > width) wide.push("the page has " + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll("body *")) {
    const r = e.getBoundingClientRect();
    if (!(e instanceof SVGElement) && r.width > 0 && (r.right > width + 1 || r.left < -1)) wide.push(e.tagName + "#" + e.id + " ends at " + r.right);
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).display !== "inline") wide.push(e.tagName + "#" + e.id + " has " + e.scrollWidth);
  }
  return wide.slice(0, 5).join("; ");
})()`

// contrast returns an expression that names text with a contrast below 4.5, which WCAG demands,
// and a background that does not fit the scheme.
func contrast(scheme string) string {
	return `(() => {
  const channels = (c) => c.match(/[\d.]+/g).map(Number);
  const light = (c) => channels(c).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor, parts = channels(c);
      if (parts.length < 4 || parts[3] > 0) return c;
    }
    return "rgb(255, 255, 255)";
  };
  const weak = [];
  if ((light(behind(document.body)) > 0.5) !== (` + fmt.Sprintf("%q", scheme) + ` === "light")) weak.push("the background is " + behind(document.body));
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.getClientRects().length === 0) continue;
    if (e instanceof SVGElement) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) weak.push(e.tagName + "#" + e.id + " " + e.textContent.slice(0, 20) + " has " + ((a + 0.05) / (b + 0.05)).toFixed(1));
  }
  return weak.slice(0, 5).join("; ");
})()`
}
