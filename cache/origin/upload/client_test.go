package upload

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

var errDeadline = errors.New("deadline of the connection")

// A slowConn is a connection that delivers some bytes after each pause.
type slowConn struct {
	pauses   func(read int) time.Duration
	bytes    int // per read
	left     int
	reads    int
	deadline time.Time
}

func (c *slowConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *slowConn) Read(p []byte) (int, error) {
	pause := c.pauses(c.reads)
	c.reads++
	if left := time.Until(c.deadline); !c.deadline.IsZero() && left < pause {
		time.Sleep(left)
		return 0, errDeadline
	}
	time.Sleep(pause)
	n := min(c.bytes, c.left, len(p))
	c.left -= n
	if c.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

func TestClientBody(t *testing.T) {
	t.Parallel()
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	tests := []struct {
		name   string
		pauses func(read int) time.Duration
		bytes  int
		total  int
		server time.Duration // between two reads
		isSlow bool
	}{
		{"one byte a minute", always(59 * time.Second), 1, 1000, 0, true},
		{"one byte a second", always(time.Second), 1, 1 << 20, 0, true},
		{"half the floor", always(time.Second), MinRate / 2, 10 << 20, 0, true},
		{"silence", always(2 * time.Minute), 1, 1000, 0, true},
		{"an eighth of 1 Mbit/s", always(time.Second), 15 << 10, 64 << 20, 0, false},
		{"small reads at that rate", always(10 * time.Millisecond), 150, 2 << 20, 0, false},
		{"a slow server", always(time.Millisecond), 1000, 100_000, 10 * time.Minute, false},
		{"a pause of 50 s every 10 MiB", func(read int) time.Duration {
			if read%10 == 5 {
				return 50 * time.Second
			}
			return 10 * time.Second
		}, 1 << 20, 64 << 20, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &slowConn{pauses: tt.pauses, bytes: tt.bytes, left: tt.total}
				b := NewClientBody(c, c, time.Minute)
				buffer, inside := make([]byte, 1<<20), time.Duration(0)
				var err error
				for err == nil {
					start := time.Now()
					_, err = b.Read(buffer)
					inside += time.Since(start)
					time.Sleep(tt.server)
				}
				if errors.Is(err, ErrSlow) != tt.isSlow || !tt.isSlow && (!errors.Is(err, io.EOF) || c.left > 0 || !c.deadline.IsZero()) {
					t.Errorf("%v with %d bytes left, deadline %v", err, c.left, c.deadline)
				}
				if bound := time.Minute + time.Duration(tt.total-c.left)*time.Second/MinRate; tt.isSlow && inside > bound {
					t.Errorf("the slow body ended after %v, at most %v", inside, bound)
				}
			})
		})
	}
}

// Drain ends with the body, after some bytes, and after some time. It reads nothing of a body that is
// known to be longer.
func TestDrain(t *testing.T) {
	t.Parallel()
	const begin = 4 << 10 // bytes that are read before
	for _, tt := range []struct {
		name         string
		rate, total  int // bytes per second; bytes
		length       int64
		least, bound int // bytes that are read
	}{
		{"short", 1 << 20, 3 << 20, -1, 3 << 20, 3 << 20},
		{"long", 1 << 20, 1 << 30, -1, begin + 32<<20, begin + 32<<20},
		{"slow", 10 << 10, 1 << 30, -1, 590 << 10, 604 << 10},
		{"too slow", 1 << 10, 1 << 30, -1, 1, 84 << 10},
		{"known", 1 << 20, begin + 32<<20, begin + 32<<20, begin + 32<<20, begin + 32<<20},
		{"known to be long", 1 << 20, begin + 32<<20 + 1, begin + 32<<20 + 1, begin, begin},
	} {
		synctest.Test(t, func(t *testing.T) {
			pause := begin * time.Second / time.Duration(tt.rate)
			c := &slowConn{pauses: func(int) time.Duration { return pause }, bytes: begin, left: tt.total}
			b := NewClientBody(c, c, time.Minute)
			if _, err := io.CopyN(io.Discard, b, begin); err != nil {
				t.Fatal(err)
			}
			b.Drain(tt.length, 32<<20, time.Minute)
			if n := tt.total - c.left; n < tt.least || n > tt.bound {
				t.Errorf("%s: %d bytes, want %d to %d", tt.name, n, tt.least, tt.bound)
			}
		})
	}
}
