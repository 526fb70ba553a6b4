package hub

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
)

// A pacer delays requests before the Hub refuses them. The Hub counts requests in windows of five
// minutes, and announces with each answer how many remain. When a fifth of them remains, the pacer
// spreads these over the rest of the window. Content and API have separate counts, which the Hub names
// in its answers.
type pacer struct {
	log   *slog.Logger
	now   func() time.Time
	sleep func(context.Context, time.Duration) error

	mu    sync.Mutex
	quota map[string]*quota // of all names of counts; guarded by mu
}

// A quota is the state of one count.
type quota struct {
	rateLimit
	end    time.Time // of the window
	next   time.Time // of the next delayed request
	logged time.Time // last time of a delay
}

// A rateLimit is an announcement of the server.
type rateLimit struct {
	remaining int           // requests in this window
	reset     time.Duration // until the end of the window
	all       int           // requests of a window; 0: unknown
}

const (
	maxReset    = 15 * time.Minute // longest window that the pacer obeys
	spreadPart  = 5                // the last fifth is spread
	spreadFewer = 20               // requests that are spread if the window's number is unknown
	eventPause  = 10 * time.Minute // without delays, until the next event
)

func newPacer(log *slog.Logger) *pacer {
	return &pacer{log: log, now: time.Now, sleep: origin.Sleep, quota: map[string]*quota{"api": {}, "resolvers": {}, "pages": {}}}
}

// countOf returns the count of a request. An answer may name it: content may come from a path of the
// API. Otherwise the path behind the endpoint decides. Names of files may also contain /api/.
func countOf(path string, answer http.Header) string {
	for _, count := range []string{"api", "resolvers", "pages"} {
		if strings.HasPrefix(answer.Get("RateLimit"), strconv.Quote(count)) {
			return count
		}
	}
	if strings.HasPrefix(path, "/api/") {
		return "api"
	}
	return "resolvers"
}

// wait returns when the next request for a path behind the endpoint may be sent. If that is after the
// deadline of ctx, it returns an error shortly before. An error at once would reach all files of a program that
// reads one after another. A caller that leaves releases its place.
func (p *pacer) wait(ctx context.Context, path string) error {
	pause, release := p.take(countOf(path, nil))
	err := ctx.Err()
	switch end, limited := ctx.Deadline(); {
	case pause > 0 && limited && pause > time.Until(end):
		left := time.Until(end) * 15 / 16
		if err = p.sleep(ctx, left); err == nil {
			err = noMore(pause-left, 1, "")
		}
	case pause > 0:
		err = p.sleep(ctx, pause)
	}
	if err != nil {
		release()
	}
	return err
}

// take takes the next place of a count. It returns the time until then, and a call that releases the
// place.
func (p *pacer) take(count string) (pause time.Duration, release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, now := p.quota[count], p.now()
	if !now.Before(q.end) {
		return 0, func() {}
	}
	end, step := q.end, time.Duration(0)
	q.remaining--
	release = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if q.end.Equal(end) { // else an answer has announced the count without this place
			q.remaining++
		}
		q.next = q.next.Add(-step)
	}
	if q.remaining >= max(spreadFewer, q.all/spreadPart) {
		return 0, release
	}
	if now.Sub(q.logged) > eventPause {
		p.log.Warn("the Hub allows few more requests; they are sent more slowly", "event", "rate_limited",
			"remaining", max(0, q.remaining), "window_ends_in", q.end.Sub(now).Round(time.Second).String())
	}
	q.logged = now
	if q.remaining <= 0 {
		return q.end.Sub(now), release
	}
	at := q.next
	if at.Before(now) {
		at = now
	}
	step = q.end.Sub(at) / time.Duration(q.remaining)
	q.next = at.Add(step)
	return at.Sub(now), release
}

// observe records the announcement in the answer for a path behind the endpoint.
func (p *pacer) observe(path string, header http.Header) {
	l, ok := parseRateLimit(header)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.quota[countOf(path, header)]
	if l.all == 0 {
		l.all = q.all
	}
	q.rateLimit, q.end = l, p.now().Add(l.reset)
}

// parseRateLimit parses the headers of an answer:
//
//	RateLimit: "api";r=489;t=189
//	RateLimit-Policy: "fixed window";"api";q=500;w=300
//
// An answer that a CDN has stored has the limits of another client.
func parseRateLimit(h http.Header) (l rateLimit, ok bool) {
	if age := h.Get("Age"); age != "" && age != "0" || strings.Contains(strings.ToLower(h.Get("X-Cache")), "hit") {
		return l, false
	}
	fields := parameters(h.Get("RateLimit"))
	remaining, err := strconv.Atoi(fields["r"])
	seconds, err2 := strconv.Atoi(fields["t"])
	if err != nil || err2 != nil || remaining < 0 || seconds < 0 {
		return l, false
	}
	l.remaining, l.reset = remaining, min(time.Duration(min(seconds, 1<<20))*time.Second, maxReset)
	if all, err := strconv.Atoi(parameters(h.Get("RateLimit-Policy"))["q"]); err == nil && all > 0 {
		l.all = all
	}
	return l, true
}

// parameters returns the parameters of the first item of a list.
func parameters(text string) map[string]string {
	first, _, _ := strings.Cut(text, ",")
	found := map[string]string{}
	for part := range strings.SplitSeq(first, ";") {
		if name, value, ok := strings.Cut(strings.TrimSpace(part), "="); ok {
			found[name] = value
		}
	}
	return found
}
