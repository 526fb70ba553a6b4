package ui

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns s in a form that a terminal may show. Control characters and bytes that
// are no UTF-8 are escaped as in Go source. One line stays one line, and a name cannot
// control the terminal.
func Printable(s string) string {
	if isPrintable(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			fmt.Fprintf(&b, `\x%02x`, s[i])
			continue
		}
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case !unicode.IsPrint(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// QuoteName returns a name as ls prints it. An ambiguous name becomes $'…', which shells and
// the commands of xetfs read; other names stay unchanged.
func QuoteName(name string) string {
	if isPrintable(name) && !strings.HasPrefix(name, "$'") {
		return name
	}
	return ansiWord(name)
}

// UnquoteName is the inverse of QuoteName for names in $'…'.
func UnquoteName(s string) (name string, ok bool) {
	if len(s) < len("$''") || !strings.HasPrefix(s, "$'") || !strings.HasSuffix(s, "'") {
		return "", false
	}
	s = s[len("$'") : len(s)-len("'")]
	var b []byte
	for s != "" {
		if s[0] != '\\' {
			b, s = append(b, s[0]), s[1:]
			continue
		}
		r, multibyte, rest, err := strconv.UnquoteChar(s, '\'')
		if err != nil {
			return "", false
		}
		if s = rest; multibyte {
			b = utf8.AppendRune(b, r)
		} else {
			b = append(b, byte(r))
		}
	}
	return string(b), true
}

// ansiWord returns s as bash and other shells write it with escapes: $'a\nb'.
func ansiWord(s string) string {
	return "$'" + strings.ReplaceAll(Printable(strings.ReplaceAll(s, `\`, `\\`)), "'", `\'`) + "'"
}
