package ui

import (
	"bytes"
	"io"
)

// A FilteredLog is where the standard logger writes, without what net/http tells there of a
// server that sends more than it said: up to 4 KiB of it, each time. The answer before that
// was whole, and its connection is not used again.
type FilteredLog struct{ io.Writer }

// Write implements io.Writer. It is called with one message.
func (q FilteredLog) Write(message []byte) (int, error) {
	if bytes.Contains(message, []byte("Unsolicited response received on idle HTTP channel")) {
		return len(message), nil
	}
	return q.Writer.Write(message)
}
