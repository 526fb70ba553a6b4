package main

import (
	"bufio"
	"bytes"
	"fmt"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"io"
	"strings"
)

// An ignore says which paths of a folder are left out. Its patterns are those of
// .gitignore:
//
//	*.tmp       every name that ends so, at any depth
//	/build      what lies at this path, seen from the folder
//	doc/*.pdf   likewise: a slash at the front or in the middle ties a pattern to the folder
//	cache/      folders only
//	a/**/b      any number of folders between; also **/b and a/**
//	?, [a-z]    one byte; one of some; [!a-z] none of them
//	!keep.tmp   what was left out by a pattern before stays, unless a folder above is out
//	\           the next character stands for itself
//	# …         a comment
//
// The last pattern that fits decides. What .gitignore has beyond that is missing: classes
// with names ([[:alpha:]]), and files with patterns further down.
type ignore struct{ rules []ignoreRule }

// An ignoreRule is one pattern.
type ignoreRule struct {
	names   []string // patterns of the names in a path; "**" is any number of names
	base    bool     // names is one pattern, for the last name of a path
	folders bool     // of folders only
	keep    bool     // what fits is not left out
}

// ignoreFile is where patterns lie in a folder.
const ignoreFile = ".xetfsignore"

// maxIgnoreFile is how long a file of patterns may be.
const maxIgnoreFile = 1 << 20

// read adds the patterns of a file, one a line.
func (g *ignore) read(r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, maxIgnoreFile+1))
	if err != nil {
		return err
	}
	if len(b) > maxIgnoreFile {
		return fmt.Errorf("more than %s of patterns", ui.HumanSize(maxIgnoreFile))
	}
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
	lines.Buffer(nil, maxIgnoreFile+1)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		if err := g.add(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// add adds one pattern. An empty one says nothing.
func (g *ignore) add(pattern string) error {
	text := trimSpaces(pattern)
	rule := ignoreRule{}
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		rule.keep, text = true, rest
	}
	if rest, ok := strings.CutSuffix(text, "/"); ok {
		rule.folders, text = true, rest
	}
	if text == "" {
		return nil
	}
	rule.names = strings.Split(strings.TrimPrefix(text, "/"), "/")
	for i, name := range rule.names {
		if err := checkGlob(name); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if len(name) > 2 && strings.Trim(name, "*") == "" {
			rule.names[i] = "**"
		}
	}
	rule.base = !strings.Contains(text, "/")
	if last := len(rule.names) - 1; last > 0 && rule.names[last] == "**" {
		rule.names = append(rule.names, "*") // what is in the folder, not the folder
	}
	g.rules = append(g.rules, rule)
	return nil
}

// trimSpaces takes away the spaces at the end of a line that have no backslash.
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

// excludes says whether a path is left out, given as the names of the folders above and
// its own. It is asked for no path below one that is.
func (g *ignore) excludes(above []string, name string, folder bool) bool {
	for i := len(g.rules) - 1; i >= 0; i-- {
		r := &g.rules[i]
		if r.folders && !folder {
			continue
		}
		if r.base && matchName(r.names[0], name) || !r.base && matchNames(r.names, above, name) {
			return !r.keep
		}
	}
	return false
}

// matchNames says whether patterns fit all names of a path. Where a "**" has taken too
// few names it takes one more; only the last one need be asked, because what stands
// before it fits whatever comes behind.
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
