package disk

import "time"

// probing is how a suspended store finds out that the disk works again.
type probing struct {
	last time.Time
	good int // looks in a row that went well
}

// probe looks at the disk when it is time, and resumes after enough good looks.
func (k *keeper) probe() {
	p := &k.probing
	if p.last.IsZero() {
		p.last = now()
	}
	if time.Since(p.last) < k.s.o.testing.probe {
		return
	}
	p.last = now()
	if k.d.probe() != nil {
		p.good = 0
		return
	}
	if p.good++; p.good == goodProbes {
		k.resume()
	}
}

// resume opens the folder as if the program had just started: what was written before
// the disk failed may be there or not.
func (k *keeper) resume() {
	k.settleSync()
	k.abandonLog()
	_ = k.d.close() // it failed already
	if k.load() != nil {
		k.probing = probing{last: now()}
		return
	}
	k.s.health.clear()
	k.s.health.suspended.Store(false)
	k.s.o.Event(Event{Name: EventResumed})
}
