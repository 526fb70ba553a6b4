package ui

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FollowReads moves the bar by the bytes that this process reads from files, until stop is
// called. It serves a library that reports no progress.
func (p *Progress) FollowReads() (stop func()) {
	if !p.Visible() {
		return func() {}
	}
	done := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() {
		tick := time.NewTicker(2 * barPause)
		defer tick.Stop()
		for before := bytesRead(); ; {
			select {
			case <-done:
				return
			case <-tick.C:
				now := bytesRead()
				p.Add(now - before)
				before = now
			}
		}
	})
	return func() { close(done); following.Wait() }
}

// bytesRead returns the number of bytes that this process has read from files, as the kernel
// counts.
func bytesRead() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if digits, ok := strings.CutPrefix(line, "rchar: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
			return n
		}
	}
	return 0
}
