package names

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSymbol is how long the name of a symbol may be in a key. With it, the last part of
// every key has at most 255 bytes, which is the limit of local file systems.
const maxSymbol = 120

// CheckSymbol says what is wrong with the name of a symbol, if anything is. It is UTF-8
// without control characters, in components with slashes between them, none of them
// empty, "." or "..", or beginning with "*"; and in keys it has at most 120 bytes, where
// bytes other than A-Z a-z 0-9 . _ - count three times.
func CheckSymbol(name string) error {
	reason := badName(name)
	if reason == "" {
		return nil
	}
	return fmt.Errorf("symbol %.80q: %w", name, errors.New(reason))
}

// CheckSnapshot is CheckSymbol for the name of a snapshot, which has no slash.
func CheckSnapshot(name string) error {
	reason := badName(name)
	if reason == "" && strings.Contains(name, "/") {
		reason = "it holds a slash"
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("snapshot %.80q: %w", name, errors.New(reason))
}

func badName(name string) string {
	if n := escapedLen(name); n > maxSymbol {
		return fmt.Sprintf("%d bytes in a key, at most %d are allowed", n, maxSymbol)
	}
	if !utf8.ValidString(name) {
		return "not UTF-8"
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return "it holds a control character"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return "a part of it is empty"
		case part == "." || part == "..":
			return fmt.Sprintf("a part of it is %q", part)
		case part[0] == '*':
			return "a part of it begins with *"
		}
	}
	return ""
}

// plain reports whether a byte is spelled as it is in a key.
func plain(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

func escapedLen(name string) int {
	n := len(name)
	for i := range len(name) {
		if !plain(name[i]) {
			n += 2
		}
	}
	return n
}

// escape spells a name for a key.
func escape(name string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, escapedLen(name))
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '!', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

// unescape is the inverse of escape, and false for what escape does not write.
func unescape(s string) (string, bool) {
	if len(s) > maxSymbol {
		return "", false
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '!' {
			b = append(b, s[i])
			continue
		}
		if len(s)-i < 3 {
			return "", false
		}
		b = append(b, nibble(s[i+1])<<4|nibble(s[i+2]))
		i += 2
	}
	return string(b), escape(string(b)) == s
}

// nibble reads a hex digit; other bytes give a number that is wrong.
func nibble(c byte) byte {
	if c > '9' {
		return c - 'A' + 10
	}
	return c - '0'
}
