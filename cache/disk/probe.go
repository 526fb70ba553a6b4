package disk

import "time"

// probe looks at the disk when it is time, and resumes after enough good looks.
func (wr *writer) probe() {
	p := &wr.probing
	if p.last.IsZero() {
		p.last = now()
	}
	if time.Since(p.last) < wr.s.o.testing.probe {
		return
	}
	p.last = now()
	if wr.d.Probe() != nil {
		p.good = 0
		return
	}
	if p.good++; p.good == goodProbes {
		wr.resume()
	}
}

// resume opens the folder as if the program had just started: what was written before
// the disk failed may be there or not.
func (wr *writer) resume() {
	wr.settleSync()
	wr.abandonLog()
	_ = wr.d.close() // it failed already
	if wr.load() != nil {
		wr.probing = prober{last: now()}
		return
	}
	wr.s.health.clear()
	wr.s.health.suspended.Store(false)
	wr.s.o.Event(Event{Name: EventResumed})
}
