package fs

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// signalPoll is the interval of the check for an ending signal. The kernel interrupts a message
// once, and readahead never. Without the check, a program with a handler for SIGINT could not
// stop its wait for such a page.
const signalPoll = 80 * time.Millisecond

// cancelGrace is the time between an interrupt and the end of a request of an invisible thread.
// The kernel reports a signal, but not which one. Profilers and progress bars send harmless
// signals. Few programs expect EINTR from a file, and a page fault would begin again.
const cancelGrace = 500 * time.Millisecond

// A request is the context of one message of the kernel. It ends at its deadline, or after an
// ending signal for the reader. If the reader is invisible, it ends cancelGrace after an
// interrupt.
//
// Most messages need no wait, so a request starts a timer and a goroutine only in Done.
type request struct {
	interrupted <-chan struct{} // closed by go-fuse
	thread      uint32          // of the reader
	start       time.Time
	deadline    time.Time

	mu    sync.Mutex
	ctx   context.Context    // nil: no caller waits; guarded by mu
	stop  context.CancelFunc // of ctx; guarded by mu
	ended bool               // guarded by mu
}

var _ context.Context = (*request)(nil)

func newRequest(interrupted <-chan struct{}, thread uint32, limit time.Duration) *request {
	now := time.Now()
	return &request{interrupted: interrupted, thread: thread, start: now, deadline: now.Add(limit)}
}

// elapsed returns the time since the message arrived.
func (r *request) elapsed() time.Duration { return time.Since(r.start) }

// end must follow the reply: go-fuse reuses its channel.
func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.stop != nil {
		r.stop()
	}
}

// Deadline implements context.Context.
func (r *request) Deadline() (time.Time, bool) { return r.deadline, true }

// Done implements context.Context.
func (r *request) Done() <-chan struct{} { return r.context().Done() }

// Value implements context.Context. With the value of the inner context, package context
// attaches to it without another goroutine.
func (r *request) Value(key any) any { return r.context().Value(key) }

// Err implements context.Context.
func (r *request) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil && !r.ended && isClosed(r.interrupted) {
		r.startLocked() // it looks for the signal
	}
	switch {
	case r.ctx != nil:
		return r.ctx.Err()
	case r.ended:
		return context.Canceled
	case time.Now().After(r.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// context returns a context with a timer.
func (r *request) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startLocked()
	return r.ctx
}

func (r *request) startLocked() {
	if r.ctx != nil {
		return
	}
	r.ctx, r.stop = context.WithDeadline(context.Background(), r.deadline)
	if r.ended {
		r.stop()
		return
	}
	go r.watch(r.ctx.Done(), r.stop)
}

// watch stops the context after a signal. The kernel interrupts a message for any signal.
func (r *request) watch(done <-chan struct{}, stop func()) {
	look := time.NewTicker(signalPoll)
	defer look.Stop()
	interrupted, grace, expired := r.interrupted, (<-chan time.Time)(nil), false
	for {
		select {
		case <-interrupted:
			interrupted, grace = nil, time.After(cancelGrace)
		case <-grace:
			expired = true
		case <-look.C:
		case <-done:
			return
		}
		if ending, visible := isEnding(r.thread); ending || expired && !visible {
			stop()
			return
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const (
	// endingSignals ask a program to end, also one with a handler.
	endingSignals = 1<<(unix.SIGINT-1) | 1<<(unix.SIGTERM-1) | 1<<(unix.SIGHUP-1) | 1<<(unix.SIGQUIT-1)

	// harmlessSignals do not end a program without a handler. All others do. The kernel marks a
	// dying thread with SIGKILL, but not before it writes a core file.
	harmlessSignals = 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGCONT-1) | 1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) |
		1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1) | 1<<(unix.SIGURG-1) | 1<<(unix.SIGWINCH-1)
)

// isEnding reports whether an ending signal is pending for a thread, and whether the thread is
// visible. Threads of another process namespace may be invisible.
func isEnding(thread uint32) (ending, visible bool) {
	if thread == 0 {
		return false, false
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/status", thread), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, false
	}
	defer unix.Close(fd)
	var buf [4096]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return false, false
	}
	return hasEndingSignal(buf[:n])
}

// hasEndingSignal reports whether the status of a thread has an ending signal. A signal is pending
// for the thread or its process, and not blocked. visible is false for an incomplete status.
func hasEndingSignal(status []byte) (ending, visible bool) {
	var pending, held, caught uint64
	fields := 0
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		var signals *uint64
		switch string(name) {
		case "SigPnd", "ShdPnd":
			signals = &pending
		case "SigBlk", "SigIgn":
			signals = &held
		case "SigCgt":
			signals = &caught
		default:
			continue
		}
		if set, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64); err == nil {
			*signals |= set
			fields++
		}
	}
	if fields < 5 {
		return false, false
	}
	return pending&^held&(endingSignals|^(caught|harmlessSignals)) != 0, true
}

// A timeoutHistory records the files with timed-out reads, or the folders with timed-out
// lookups. After a failed readahead the kernel repeats the read of the page that a program waits
// for. It also delays readahead while other readers wait, and sends lookups of one name one
// after the other. Without the history a program would wait for the limit several times.
type timeoutHistory struct {
	records atomic.Int64 // number of inodes, so that a request without any takes no lock

	mu     sync.Mutex
	inodes map[uint64]inodeTimeouts // guarded by mu
}

type inodeTimeouts struct {
	full time.Time // last request that failed after the full limit
	last time.Time // last request that failed
}

const (
	// timeoutRecent is the time after a failure in which requests have the short limit.
	timeoutRecent = time.Second

	// shortLimitShare divides the limit of such requests. shortLimitRow divides the time in which
	// they may follow each other: a slow store must have full requests in between.
	shortLimitShare = 60
	shortLimitRow   = 4
)

// limit returns the time limit of a request for an inode.
func (th *timeoutHistory) limit(ino uint64, limit time.Duration) time.Duration {
	if th.records.Load() == 0 {
		return limit
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	if f, ok := th.inodes[ino]; ok && time.Since(f.last) < timeoutRecent && time.Since(f.full) < limit/shortLimitRow {
		return limit / shortLimitShare
	}
	return limit
}

// failed records a request that may have timed out, and drops old records.
func (th *timeoutHistory) failed(ino uint64, took, limit time.Duration) {
	if took < limit/shortLimitShare {
		return
	}
	now := time.Now()
	th.mu.Lock()
	defer th.mu.Unlock()
	defer func() { th.records.Store(int64(len(th.inodes))) }()
	for other, f := range th.inodes {
		if now.Sub(f.last) >= timeoutRecent {
			delete(th.inodes, other)
		}
	}
	f, ok := th.inodes[ino]
	if f.last = now; took > limit/2 {
		f.full = now
	} else if !ok {
		return // there was time left
	}
	if th.inodes == nil {
		th.inodes = map[uint64]inodeTimeouts{}
	}
	th.inodes[ino] = f
}
