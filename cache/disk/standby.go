package disk

import (
	"errors"
	"time"
)

// An heir waits for the owner of a shared folder to go, and then makes its store the owner.
// Until then it does for a store that is suspended what a writer does for its own.
type standby struct {
	s        *Store
	stop     chan struct{}
	done     chan struct{}
	previous []*folder // that the store used, and readers may be using still; run's alone
}

func newStandby(s *Store) *standby {
	h := &standby{s: s, stop: make(chan struct{}), done: make(chan struct{})}
	go h.run()
	return h
}

func (st *standby) run() {
	defer close(st.done)
	tick := time.NewTicker(st.s.o.testing.takeOver)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-st.stop:
			return
		}
		switch {
		case st.canLock():
			if st.takeOver() {
				return
			}
		case st.s.health.suspended.Load():
			st.shareAgain()
		}
	}
}

// canLock says whether nobody writes to the folder, and this process may. The folder is not
// made, and what is in it not looked at.
func (st *standby) canLock() bool {
	f, err := st.s.o.testing.openDir(st.s.dir, false)
	if err != nil {
		return false
	}
	return errors.Join(f.Lock(), f.Close()) == nil
}

// takeOver opens the folder anew, as the one who writes there. What is there now is what the store
// had, and what the former owner has added. Handles of whole files stay open, but do not keep
// these from being evicted any more.
func (st *standby) takeOver() bool {
	s, previous := st.s, st.s.disk.Load()
	wr, bytes := newWriter(s), s.stats.bytes()
	if wr.load() != nil {
		s.stats.setBytes(bytes)
		return false
	}
	if s.closed.Load() { // it may not have waited, and then nobody else closes what is open now
		wr.abandonLog()
		_ = errors.Join(previous.close(), wr.d.close()) // nothing was written that must last
		return true
	}
	st.retire(previous)
	s.writer.Store(wr)
	go wr.run()
	s.o.Event(Event{Name: EventOwned})
	return true
}

// shareAgain opens the folder anew to read there, if its disk can be read again.
func (st *standby) shareAgain() {
	previous := st.s.disk.Load()
	if st.s.share() == nil {
		st.retire(previous)
		st.s.o.Event(Event{Name: EventResumed})
	}
}

// retire makes readers go over from a folder to the one that the store uses now.
func (st *standby) retire(previous *folder) {
	for _, d := range st.previous {
		_ = d.close() // it was only read, and readers left it at the last look
	}
	st.previous = append(st.previous[:0], previous)
	previous.opened.closeAll()
	if st.s.health.suspended.Load() {
		st.s.health.clear()
		st.s.health.suspended.Store(false)
	}
}

// close ends it and closes what the store does not use any more.
func (st *standby) close(limit time.Duration) error {
	if st == nil {
		return nil
	}
	close(st.stop)
	if err := within(limit, st.done); err != nil {
		return err
	}
	var err error
	for _, d := range st.previous {
		err = errors.Join(err, d.close())
	}
	return err
}
