package disk

import (
	"errors"
	"time"
)

// An heir waits for the owner of a shared folder to go, and then makes its store the owner.
// Until then it does for a store that is suspended what a keeper does for its own.
type heir struct {
	s      *Store
	stop   chan struct{}
	done   chan struct{}
	before []*folder // that the store used, and readers may be using still; run's alone
}

func newHeir(s *Store) *heir {
	h := &heir{s: s, stop: make(chan struct{}), done: make(chan struct{})}
	go h.run()
	return h
}

func (h *heir) run() {
	defer close(h.done)
	tick := time.NewTicker(h.s.o.testing.succeed)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.stop:
			return
		}
		switch {
		case h.mayOwn():
			if h.own() {
				return
			}
		case h.s.health.suspended.Load():
			h.shareAgain()
		}
	}
}

// mayOwn says whether nobody writes to the folder, and this process may. The folder is not
// made, and what is in it not looked at.
func (h *heir) mayOwn() bool {
	f, err := h.s.o.testing.openDir(h.s.dir, false)
	if err != nil {
		return false
	}
	return errors.Join(f.lock(), f.close()) == nil
}

// own opens the folder anew, as the one who writes there. What is there now is what the store
// had, and what the former owner has added. Handles of whole files stay open, but do not keep
// these from being evicted any more.
func (h *heir) own() bool {
	s, before := h.s, h.s.disk.Load()
	k, bytes := newWriter(s), s.stats.bytes()
	if k.load() != nil {
		s.stats.setBytes(bytes)
		return false
	}
	if s.closed.Load() { // it may not have waited, and then nobody else closes what is open now
		k.abandonLog()
		_ = errors.Join(before.close(), k.d.close()) // nothing was written that must last
		return true
	}
	h.leave(before)
	s.writer.Store(k)
	go k.run()
	s.o.Event(Event{Name: EventOwned})
	return true
}

// shareAgain opens the folder anew to read there, if its disk can be read again.
func (h *heir) shareAgain() {
	before := h.s.disk.Load()
	if h.s.share() == nil {
		h.leave(before)
		h.s.o.Event(Event{Name: EventResumed})
	}
}

// leave makes readers go over from a folder to the one that the store uses now.
func (h *heir) leave(before *folder) {
	for _, d := range h.before {
		_ = d.close() // it was only read, and readers left it at the last look
	}
	h.before = append(h.before[:0], before)
	before.opened.closeAll()
	if h.s.health.suspended.Load() {
		h.s.health.clear()
		h.s.health.suspended.Store(false)
	}
}

// close ends it and closes what the store does not use any more.
func (h *heir) close(limit time.Duration) error {
	if h == nil {
		return nil
	}
	close(h.stop)
	if err := within(limit, h.done); err != nil {
		return err
	}
	var err error
	for _, d := range h.before {
		err = errors.Join(err, d.close())
	}
	return err
}
