package disk

import (
	"errors"
	"time"
)

// A standby waits for the owner of a shared folder to exit, and then makes its store the owner.
// Until then it probes the disk of a suspended store, like a writer.
type standby struct {
	s        *Store
	stop     chan struct{}
	done     chan struct{}
	previous []*folder // former folders that readers may still use; for run only
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

// canLock reports whether no process owns the folder and this one may. It neither creates the
// folder nor reads its files.
func (st *standby) canLock() bool {
	f, err := st.s.o.testing.openDir(st.s.dir, false)
	if err != nil {
		return false
	}
	return errors.Join(f.Lock(), f.Close()) == nil
}

// takeOver opens the folder as its owner. The entries are those of the store, and those that the
// former owner added. Open handles of whole files stay valid, but do not prevent eviction any
// more.
func (st *standby) takeOver() bool {
	s, previous := st.s, st.s.disk.Load()
	wr, bytes := newWriter(s), s.stats.bytes()
	if wr.load() != nil {
		s.stats.setBytes(bytes)
		return false
	}
	if s.closed.Load() { // Close may have given up waiting, and closes nothing that is opened now
		wr.abandonLog()
		_ = errors.Join(previous.close(), wr.d.close()) // nothing was written
		return true
	}
	st.retire(previous)
	s.writer.Store(wr)
	go wr.run()
	s.o.Event(Event{Name: EventOwned})
	return true
}

// shareAgain opens the folder again for reading, if its disk works.
func (st *standby) shareAgain() {
	previous := st.s.disk.Load()
	if st.s.share() == nil {
		st.retire(previous)
		st.s.o.Event(Event{Name: EventResumed})
	}
}

// retire makes readers change from a folder to the current one of the store.
func (st *standby) retire(previous *folder) {
	for _, d := range st.previous {
		_ = d.close() // it was only read, and readers left it before the last call
	}
	st.previous = append(st.previous[:0], previous)
	previous.opened.closeAll()
	if st.s.health.suspended.Load() {
		st.s.health.clear()
		st.s.health.suspended.Store(false)
	}
}

// close ends the standby and closes the retired folders.
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
