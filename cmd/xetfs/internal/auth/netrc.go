package auth

import (
	"errors"
	"fmt"
	"strings"
)

// A Login is a line of a netrc file: machine HOST login NAME password PASSWORD.
type Login struct{ Name, Password string }

// FindLogin returns the first login for a host with a password. The format is that of curl:
//
//	machine HOST login NAME password "quoted \" word"
//	# a comment is a whole line
//	macdef NAME    (ends at an empty line)
//
// Words may also be on several lines. Unlike curl, FindLogin ignores the entry "default",
// because its password would be sent to every host. ok is false if no entry fits.
func FindLogin(netrc, host string) (l Login, ok bool, err error) {
	p := netrcParser{host: host}
	n := 0
	for line := range strings.Lines(netrc) {
		n++
		if err := p.line(line); err != nil {
			return Login{}, false, fmt.Errorf("line %d: %w", n, err)
		}
		if p.done {
			break
		}
	}
	p.endEntry()
	return p.login, p.done, nil
}

// A netrcParser is the state after some lines.
type netrcParser struct {
	host    string
	keyword string // whose value is the next word; "": none
	inMacro bool
	matches bool // the entry is for host
	login   Login
	done    bool // login is complete
}

// line parses one line.
func (p *netrcParser) line(line string) error {
	line = strings.TrimSpace(line)
	if p.inMacro {
		p.inMacro = line != ""
		return nil
	}
	if strings.HasPrefix(line, "#") {
		return nil
	}
	for line != "" && !p.inMacro && !p.done {
		word, rest, err := cutWord(line)
		if err != nil {
			return err
		}
		p.word(word)
		line = strings.TrimSpace(rest)
	}
	return nil
}

// word handles a keyword or its value.
func (p *netrcParser) word(word string) {
	keyword := p.keyword
	p.keyword = ""
	switch keyword {
	case "machine":
		p.matches = strings.EqualFold(word, p.host)
	case "login":
		p.login.Name = word
	case "password":
		p.login.Password = word
	case "":
		p.start(word)
	}
}

// start handles a keyword. Unknown words are ignored.
func (p *netrcParser) start(keyword string) {
	switch keyword {
	case "machine", "default":
		p.endEntry()
	case "macdef":
		p.inMacro = true
	}
	switch keyword {
	case "machine", "login", "password", "account":
		p.keyword = keyword
	}
}

// endEntry ends the entry of a host.
func (p *netrcParser) endEntry() {
	if p.done = p.done || p.matches && p.login.Password != ""; !p.done {
		p.matches, p.login = false, Login{}
	}
}

// cutWord returns the first word of a line. A quoted word has the escapes \n, \r and \t;
// any other escaped character is itself.
func cutWord(line string) (word, rest string, err error) {
	if line[0] != '"' {
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			return line[:i], line[i:], nil
		}
		return line, "", nil
	}
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			return b.String(), line[i+1:], nil
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(unescape(line[i]))
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("a quoted word does not end")
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}
