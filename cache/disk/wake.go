package disk

// A wake is a signal to a goroutine. Signals that arrive before the goroutine waits count as one.
type wake chan struct{}

func newWake() wake { return make(wake, 1) }

// signal makes the next or current receive from w return. It does not block.
func (w wake) signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}
