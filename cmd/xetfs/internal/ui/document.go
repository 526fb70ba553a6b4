package ui

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// A Document writes one JSON object in a stream, so that a shard of a million files needs
// little memory. Close returns the first error.
type Document struct {
	w     *bufio.Writer
	comma string // before the next field or element
	Err   error
}

func NewDocument(w io.Writer) *Document {
	d := &Document{w: bufio.NewWriterSize(w, 64<<10)}
	d.write("{")
	return d
}

// Field writes a field with its whole value.
func (d *Document) Field(name string, value any) {
	d.key(name)
	d.value(value)
}

// Begin opens an array. Element and End follow.
func (d *Document) Begin(name string) {
	d.key(name)
	d.write("[")
	d.comma = ""
}

// Element writes one element of the array, on a line of its own.
func (d *Document) Element(value any) {
	d.write(d.comma + "\n")
	d.value(value)
	d.comma = ","
}

// End closes the array.
func (d *Document) End() {
	d.write("]")
	d.comma = ","
}

// Close ends the object and returns the first error of all calls.
func (d *Document) Close() error {
	d.write("}\n")
	if d.Err != nil {
		return d.Err
	}
	return d.w.Flush()
}

func (d *Document) key(name string) {
	d.write(d.comma + "\n")
	d.comma = ","
	d.value(name)
	d.write(": ")
}

func (d *Document) value(v any) {
	text, err := json.Marshal(v)
	if err != nil && d.Err == nil {
		d.Err = err
	}
	d.write(string(text))
}

func (d *Document) write(s string) {
	if _, err := d.w.WriteString(s); err != nil && d.Err == nil {
		d.Err = err
	}
}

// A FileTime is the modification time of an entry in JSON: RFC 3339, in UTC. File systems
// allow years that RFC 3339 has no digits for. Such a year has a sign and six digits or
// more, as in ISO 8601 and ECMAScript: +010000-01-01T00:00:00Z.
type FileTime time.Time

// MarshalJSON implements json.Marshaler.
func (t FileTime) MarshalJSON() ([]byte, error) {
	at := time.Time(t).UTC()
	if year := at.Year(); year < 0 || year > 9999 {
		return fmt.Appendf(nil, `"%+07d%s"`, year, at.Format("-01-02T15:04:05.999999999Z")), nil
	}
	return at.MarshalJSON()
}
