package fs

import (
	"bytes"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// endingSignals are the signals by which people and programs end a process. The kernel gives a
// thread that is to die SIGKILL, whatever it was sent.
const endingSignals = 1<<(unix.SIGKILL-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGTERM-1) |
	1<<(unix.SIGHUP-1) | 1<<(unix.SIGQUIT-1)

// isEnding says whether a thread has such a signal to attend to. It is false where the
// thread cannot be seen, as from another process namespace.
func isEnding(thread uint32) bool {
	if thread == 0 {
		return false
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/status", thread), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var buf [4096]byte
	n, err := unix.Read(fd, buf[:])
	return err == nil && pending(buf[:n])&endingSignals != 0
}

// pending returns the signals that wait for a thread, or for its process, and that it does
// not hold back: the fields SigPnd, ShdPnd and SigBlk of its status.
func pending(status []byte) uint64 {
	var all, held uint64
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		which := &all
		switch string(name) {
		case "SigPnd", "ShdPnd":
		case "SigBlk":
			which = &held
		default:
			continue
		}
		set, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
		if err == nil {
			*which |= set
		}
	}
	return all &^ held
}
