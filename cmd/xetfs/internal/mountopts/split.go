package mountopts

import (
	"errors"
	"fmt"
	"strings"
)

// maxText bounds the text behind -o, in bytes. The kernel takes at most one page.
const maxText = 64 << 10

// An Option is NAME or NAME=VALUE.
type Option struct {
	Name, Value string
	HasValue    bool
}

// Split returns the options in a text, in order. A backslash protects the next byte, and double
// quotes protect all bytes between them. A backslash and three octal digits are a byte, as in
// fstab(5). Empty options are left out.
func Split(text string) ([]Option, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("-o has %d bytes, %d are allowed", len(text), maxText)
	}
	var options []Option
	for text != "" {
		o, rest, err := first(text)
		if err != nil {
			return nil, err
		}
		if o.Name != "" || o.HasValue {
			options = append(options, o)
		}
		text = rest
	}
	return options, nil
}

// first returns the first option of a text, and the text behind its comma.
func first(text string) (o Option, rest string, err error) {
	var b strings.Builder
	quoted := false
	i := 0
	for ; i < len(text) && (quoted || text[i] != ','); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			value, n := escaped(text[i+1:])
			if n == 0 {
				return o, "", errors.New("-o ends with a backslash, which protects nothing")
			}
			b.WriteByte(value)
			i += n
		case c == '=' && !quoted && !o.HasValue:
			o.Name, o.HasValue = b.String(), true
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		return o, "", errors.New("-o has a quote without its end")
	}
	if o.HasValue {
		o.Value = b.String()
	} else {
		o.Name = b.String()
	}
	return o, text[min(i+1, len(text)):], nil
}

// escaped returns the byte that follows a backslash, and the length of its text; 0: the text ends.
func escaped(text string) (value byte, n int) {
	if text == "" {
		return 0, 0
	}
	const digits = 3
	if len(text) < digits || text[0] > '3' {
		return text[0], 1
	}
	for _, c := range []byte(text[:digits]) {
		if c < '0' || c > '7' {
			return text[0], 1
		}
		value = value<<3 | (c - '0')
	}
	return value, digits
}

// Join returns the text of options. Split is its inverse.
func Join(options []Option) string {
	var texts []string
	for _, o := range options {
		text := protect(o.Name)
		if o.HasValue {
			text += "=" + protect(o.Value)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// protect returns a text in which commas, quotes, backslashes and equal signs are octal bytes.
func protect(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte("\\\",=", c) >= 0 {
			fmt.Fprintf(&b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
