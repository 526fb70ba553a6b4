package ignore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// FileName is the name of the pattern file at the top of a folder.
const FileName = ".xetfsignore"

// maxFile is the size limit of a pattern file.
const maxFile = 1 << 20

var errTooLong = errors.New("more than 1.00 MiB of patterns")

// A Matcher decides which paths of a folder are left out. The zero value leaves out nothing.
type Matcher struct{ rules []rule }

// A rule is one pattern.
type rule struct {
	names   []string // patterns of the names in a path; "**" is any number of names
	base    bool     // names is one pattern, for the last name of a path
	folders bool     // matches folders only
	keep    bool     // takes back an earlier rule
}

// ReadFrom implements io.ReaderFrom: it adds the patterns of a file, one per line. An error
// names the line.
func (m *Matcher) ReadFrom(r io.Reader) (int64, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = errTooLong
	}
	if err != nil {
		return int64(len(b)), err
	}
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
	lines.Buffer(nil, maxFile+1)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		if err := m.Add(line); err != nil {
			return int64(len(b)), fmt.Errorf("line %d: %w", n, err)
		}
	}
	return int64(len(b)), lines.Err()
}

// Add adds one pattern. An empty pattern has no effect.
func (m *Matcher) Add(pattern string) error {
	text := trimSpaces(pattern)
	ru := rule{}
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		ru.keep, text = true, rest
	}
	if rest, ok := strings.CutSuffix(text, "/"); ok {
		ru.folders, text = true, rest
	}
	if text == "" {
		return nil
	}
	ru.names = strings.Split(strings.TrimPrefix(text, "/"), "/")
	for i, name := range ru.names {
		if err := checkGlob(name); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if len(name) > 2 && strings.Trim(name, "*") == "" {
			ru.names[i] = "**"
		}
	}
	ru.base = !strings.Contains(text, "/")
	if last := len(ru.names) - 1; last > 0 && ru.names[last] == "**" {
		ru.names = append(ru.names, "*") // the content of the folder, not the folder
	}
	m.rules = append(m.rules, ru)
	return nil
}

// trimSpaces removes the spaces at the end of a line that have no backslash.
func trimSpaces(s string) string {
	s = strings.TrimSuffix(s, "\r")
	end := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		} else if s[i] == ' ' {
			continue
		}
		end = i + 1
	}
	return s[:end]
}

// Excludes reports whether a path is left out. The arguments are the names of the folders
// above, and the name of the path. A caller does not descend into an excluded folder.
func (m *Matcher) Excludes(above []string, name string, folder bool) bool {
	for i := len(m.rules) - 1; i >= 0; i-- {
		r := &m.rules[i]
		if r.folders && !folder {
			continue
		}
		if r.base && matchName(r.names[0], name) || !r.base && matchNames(r.names, above, name) {
			return !r.keep
		}
	}
	return false
}

// matchNames reports whether patterns match all names of a path. It tries again with one more
// name for the last "**" only: a prefix that matched once does not depend on what follows.
func matchNames(patterns, above []string, name string) bool {
	at := func(i int) string {
		if i < len(above) {
			return above[i]
		}
		return name
	}
	p, n, star, mark := 0, 0, -1, 0
	for n <= len(above) {
		switch {
		case p < len(patterns) && patterns[p] == "**":
			star, mark = p, n
			p++
		case p < len(patterns) && matchName(patterns[p], at(n)):
			p, n = p+1, n+1
		case star < 0:
			return false
		default:
			mark++
			p, n = star+1, mark
		}
	}
	for p < len(patterns) && patterns[p] == "**" {
		p++
	}
	return p == len(patterns)
}
