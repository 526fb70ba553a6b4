package ui

import (
	"bytes"
	"io"
)

// A FilteredLog is a writer for the standard logger that drops one message of net/http. The
// message repeats up to 4 KiB that a server sent behind a complete answer. The client closes
// such a connection, so the message concerns no user.
type FilteredLog struct{ io.Writer }

// Write implements io.Writer. It is called with one message.
func (q FilteredLog) Write(message []byte) (int, error) {
	if bytes.Contains(message, []byte("Unsolicited response received on idle HTTP channel")) {
		return len(message), nil
	}
	return q.Writer.Write(message)
}
