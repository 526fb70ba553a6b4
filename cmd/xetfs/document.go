package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// A document is one JSON object that is written while it is made, so that a shard of
// a million files need not be held in memory. The first error is kept for close.
type document struct {
	w     *bufio.Writer
	comma string // before the next field or element
	err   error
}

func newDocument(w io.Writer) *document {
	d := &document{w: bufio.NewWriterSize(w, 64<<10)}
	d.write("{")
	return d
}

// field writes a field with its whole value.
func (d *document) field(name string, value any) {
	d.key(name)
	d.value(value)
}

// begin opens an array; element and end follow.
func (d *document) begin(name string) {
	d.key(name)
	d.write("[")
	d.comma = ""
}

// element writes one element of the array, on a line of its own.
func (d *document) element(value any) {
	d.write(d.comma + "\n")
	d.value(value)
	d.comma = ","
}

// end closes the array.
func (d *document) end() {
	d.write("]")
	d.comma = ","
}

// close ends the object and returns the first error there was.
func (d *document) close() error {
	d.write("}\n")
	if d.err != nil {
		return d.err
	}
	return d.w.Flush()
}

func (d *document) key(name string) {
	d.write(d.comma + "\n")
	d.comma = ","
	d.value(name)
	d.write(": ")
}

func (d *document) value(v any) {
	text, err := json.Marshal(v)
	if err != nil && d.err == nil {
		d.err = err
	}
	d.write(string(text))
}

func (d *document) write(s string) {
	if _, err := d.w.WriteString(s); err != nil && d.err == nil {
		d.err = err
	}
}

// A fileTime is the modification time of an entry in JSON: RFC 3339, in UTC. File systems
// allow years that RFC 3339 has no digits for. Such a year has a sign and six digits or
// more, as in ISO 8601 and ECMAScript: +010000-01-01T00:00:00Z.
type fileTime time.Time

// MarshalJSON implements json.Marshaler.
func (t fileTime) MarshalJSON() ([]byte, error) {
	at := time.Time(t).UTC()
	if year := at.Year(); year < 0 || year > 9999 {
		return fmt.Appendf(nil, `"%+07d%s"`, year, at.Format("-01-02T15:04:05.999999999Z")), nil
	}
	return at.MarshalJSON()
}
