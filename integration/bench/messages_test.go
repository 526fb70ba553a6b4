package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// tracing is the folder of the kernel's trace events.
const tracing = "/sys/kernel/tracing"

// messagesBuffer is the room for events of each processor in KiB: some 100,000.
const messagesBuffer = 16 << 10

// A messageCounter counts the messages of the kernel to a FUSE server, by the trace event
// fuse:fuse_request_send. It has a buffer of its own.
type messageCounter struct{ instance string }

// countMessages starts to count the messages of the mount at path. It returns nil on a machine without
// trace events.
func countMessages(t *testing.T, path string) *messageCounter {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tracing, "events/fuse")); err != nil {
		return nil
	}
	c := &messageCounter{filepath.Join(tracing, "instances", fmt.Sprint("xetfs-bench-", os.Getpid()))}
	if err := os.Mkdir(c.instance, 0o700); err != nil {
		t.Logf("messages are not counted: %v", err)
		return nil
	}
	c.set(t, "buffer_size_kb", fmt.Sprint(messagesBuffer))
	c.set(t, "events/fuse/fuse_request_send/filter", fmt.Sprintf("connection == %d", unix.Minor(st.Dev)))
	c.set(t, "events/fuse/fuse_request_send/enable", "1")
	return c
}

func (c *messageCounter) set(t *testing.T, file, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.instance, file), []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
}

var sentMessage = regexp.MustCompile(`fuse_request_send: .* opcode \d+ \(FUSE_(\w+)\)`)

// messages are counts of messages that have a reply.
type messages struct {
	reads  int // READ
	others int
}

// end ends the count.
func (c *messageCounter) end(t *testing.T) *messages {
	t.Helper()
	var sent messages
	c.set(t, "events/fuse/fuse_request_send/enable", "0")
	b, err := os.ReadFile(filepath.Join(c.instance, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(c.instance); err != nil {
		t.Error(err)
	}
	for _, m := range sentMessage.FindAllSubmatch(b, -1) {
		switch string(m[1]) {
		case "READ":
			sent.reads++
		case "FORGET", "BATCH_FORGET":
		default:
			sent.others++
		}
	}
	return &sent
}
