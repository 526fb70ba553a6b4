package disk

import "time"

// probe probes the disk when it is due, and resumes after enough successful probes.
func (wr *writer) probe() {
	p := &wr.probing
	if p.last.IsZero() {
		p.last = time.Now()
	}
	if time.Since(p.last) < wr.s.o.testing.probe {
		return
	}
	p.last = time.Now()
	if wr.d.Probe() != nil {
		p.good = 0
		return
	}
	if p.good++; p.good == goodProbes {
		wr.resume()
	}
}

// resume opens the folder as after a start of the program. Earlier writes may be lost.
func (wr *writer) resume() {
	wr.settleSync()
	wr.abandonLog()
	_ = wr.d.close() // the disk failed already
	if wr.load() != nil {
		wr.probing = prober{last: time.Now()}
		return
	}
	wr.s.health.clear()
	wr.s.health.suspended.Store(false)
	wr.s.o.Event(Event{Name: EventResumed})
}
