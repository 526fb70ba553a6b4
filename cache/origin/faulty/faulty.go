// Package faulty makes a good web server a bad one, on command. Answers are late, slow, cut
// off, corrupt or missing. It serves tests, and people that observe how a client handles
// faults.
package faulty

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options are the faults of a server and their probabilities. Each request meets at most one of
// the faults. The same seed and the same requests in the same order meet the same faults. The
// zero value changes nothing.
type Options struct {
	Delay     time.Duration // before an answer begins: one round trip
	Bandwidth int64         // bytes a second, of all bodies together; 0: no limit
	Each      int64         // bytes a second of one body; 0: no limit

	// Probabilities of faults, from 0 to 1.
	Fail     float64 // status 500 or 503, or the connection is reset
	Truncate float64 // the connection ends in the middle of the body
	Corrupt  float64 // one bit of the body is another
	Hang     float64 // no answer

	Seed uint64 // of the dice
}

// Handler answers as h does, with faults.
func Handler(h http.Handler, o Options) http.Handler {
	return &handler{
		below: h, o: o,
		dice: rand.New(rand.NewPCG(o.Seed, o.Seed)), //nolint:gosec // dice, not secrets
		link: Pace{Rate: o.Bandwidth},
	}
}

type handler struct {
	below http.Handler
	o     Options
	link  Pace // of all

	mu   sync.Mutex
	dice *rand.Rand // guarded by mu
}

// A fault is what goes wrong with one answer.
type fault uint8

const (
	none fault = iota
	status500
	status503
	reset
	truncate
	corrupt
	hang
)

// draw returns what goes wrong this time, and a number from 0 to 1 that says where.
func (h *handler) draw() (fault, float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	roll, where := h.dice.Float64(), h.dice.Float64()
	for _, f := range []struct {
		likely float64
		fault  fault
	}{
		{h.o.Fail / 3, status500}, {h.o.Fail / 3, status503}, {h.o.Fail / 3, reset},
		{h.o.Truncate, truncate}, {h.o.Corrupt, corrupt}, {h.o.Hang, hang},
	} {
		if roll < f.likely {
			return f.fault, where
		}
		roll -= f.likely
	}
	return none, where
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, where := h.draw()
	if h.o.Delay > 0 {
		select {
		case <-time.After(h.o.Delay):
		case <-r.Context().Done():
			return
		}
	}
	switch f {
	case status500:
		http.Error(w, "as it was wished", http.StatusInternalServerError)
	case status503:
		http.Error(w, "as it was wished", http.StatusServiceUnavailable)
	case reset:
		resetConnection(w)
	case hang:
		<-r.Context().Done()
	default:
		h.below.ServeHTTP(&body{
			ResponseWriter: w, r: r, link: &h.link, own: Pace{Rate: h.o.Each},
			fault: f, where: where, at: -1,
		}, r)
	}
}

// resetConnection ends a connection so that the other side sees an error, not an end.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// A body is an answer with a pace and, maybe, a fault.
type body struct {
	http.ResponseWriter
	r    *http.Request
	link *Pace
	own  Pace

	fault fault
	where float64 // of the fault in the body, from 0 to 1
	at    int64   // the same in bytes; -1: the body has none, or its length is not known
	off   int64   // bytes written
	begun bool
}

// Unwrap is for http.ResponseController.
func (b *body) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (b *body) WriteHeader(code int) {
	b.begin()
	b.ResponseWriter.WriteHeader(code)
}

// begin finds out where the fault will be.
func (b *body) begin() {
	if b.begun {
		return
	}
	b.begun = true
	n, err := strconv.ParseInt(b.Header().Get("Content-Length"), 10, 64)
	if b.fault != none && err == nil && n > 0 && b.r.Method != http.MethodHead {
		b.at = int64(b.where * float64(n))
	}
}

// piece is how much is written at once, so that a slow answer flows.
const piece = 16 << 10

// Write implements http.ResponseWriter.
func (b *body) Write(p []byte) (written int, err error) {
	b.begin()
	for len(p) > 0 && err == nil {
		n := min(len(p), piece)
		if err = b.wait(n); err != nil {
			return written, err
		}
		n, err = b.write(p[:n])
		written += n
		p = p[n:]
	}
	return written, err
}

// write writes a piece, unless the fault is inside the piece.
func (b *body) write(p []byte) (int, error) {
	in := b.at - b.off
	b.off += int64(len(p))
	if in < 0 || in >= int64(len(p)) {
		return b.ResponseWriter.Write(p)
	}
	if b.fault == truncate {
		_, _ = b.ResponseWriter.Write(p[:in])
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	wrong := append([]byte(nil), p...)
	wrong[in] ^= 1 << (b.off & 7)
	return b.ResponseWriter.Write(wrong)
}

// wait returns when n bytes may be written.
func (b *body) wait(n int) error {
	pause := max(b.link.Take(n), b.own.Take(n))
	if pause <= 0 {
		return nil
	}
	_ = http.NewResponseController(b.ResponseWriter).Flush()
	select {
	case <-time.After(pause):
		return nil
	case <-b.r.Context().Done():
		return b.r.Context().Err()
	}
}

// A Pace is a link with a limited number of bytes per second. It is safe for concurrent use.
type Pace struct {
	Rate int64 // bytes per second; 0: no limit

	mu   sync.Mutex
	free time.Time // when all bytes that were taken so far have passed; guarded by mu
}

// burst is the idle time that a link may catch up: sleepers wake late.
const burst = 10 * time.Millisecond

// Take takes n bytes, and returns the pause before they may pass. Each caller waits for its own
// pause, however short, so that all bodies of a link get equal shares.
func (p *Pace) Take(n int) time.Duration {
	if p.Rate <= 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.free.Before(now.Add(-burst)) {
		p.free = now.Add(-burst)
	}
	p.free = p.free.Add(time.Duration(float64(n) / float64(p.Rate) * float64(time.Second)))
	return max(0, p.free.Sub(now))
}
