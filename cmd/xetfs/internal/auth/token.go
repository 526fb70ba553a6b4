package auth

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"os"
	slashpath "path"
	"slices"
	"strings"
	"syscall"
)

// Bounds of a file of tokens.
const (
	maxToken  = 4 << 10 // bytes
	maxTokens = 100
)

// ReadTokens returns the tokens in a file, one per line. Empty lines and those that begin with # are
// skipped. The file must belong to this user, and no other user may have access.
func ReadTokens(path string) ([]string, error) {
	b, err := readFile(path, checkPrivate)
	if err != nil {
		return nil, err
	}
	tokens, err := parseTokens(string(b))
	if err != nil {
		return nil, at(path, err)
	}
	return tokens, nil
}

// checkPrivate returns an error unless the file belongs to this user alone.
func checkPrivate(info iofs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != os.Geteuid():
		return errors.New("belongs to another user; make a copy that belongs to this one")
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users have access (mode %04o); chmod it to 0600", info.Mode().Perm())
	}
	return nil
}

// parseTokens returns the tokens in the text of a file. Errors do not quote the text.
func parseTokens(text string) (tokens []string, err error) {
	for _, token := range linesOf(text) {
		if err := checkToken(token, len(tokens)); err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	if len(tokens) == 0 {
		return nil, errNoToken
	}
	return tokens, nil
}

// linesOf yields the lines of a file of tokens and their numbers, from 1, without empty lines and comments.
func linesOf(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.Lines(text) {
			number++
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' && !yield(number, line) {
				return
			}
		}
	}
}

var errNoToken = errors.New("no token; write one per line")

// checkToken returns an error for an invalid token behind n others.
func checkToken(token string, n int) error {
	switch {
	case len(token) > maxToken:
		return fmt.Errorf("a token is longer than %d bytes", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("a token has other characters than visible ASCII; write one token per line")
	case n == maxTokens:
		return fmt.Errorf("more than %d tokens", maxTokens)
	}
	return nil
}

// A Grant is a token of a server and what it may do.
type Grant struct {
	Token    string
	Write    bool     // the symbols may be changed, too
	Patterns []string // of symbols, as of path.Match; none: everything
	Line     int      // in the file, from 1
}

// ReadGrants is ReadTokens for a server. The word read or write may follow each token, and then
// patterns of symbols, separated by spaces. The default is read.
func ReadGrants(path string) ([]Grant, error) {
	b, err := readFile(path, checkPrivate)
	if err != nil {
		return nil, err
	}
	grants, err := parseGrants(string(b))
	if err != nil {
		return nil, at(path, err)
	}
	return grants, nil
}

// minKey is the minimum length of a key in bytes.
const minKey = 32

// ReadKey returns the content of a file with a secret key of at least 32 bytes. The file must
// belong to this user, and no other user may have access.
func ReadKey(path string) ([]byte, error) {
	b, err := readFile(path, checkPrivate)
	if err == nil && len(b) < minKey {
		err = at(path, fmt.Errorf("%d bytes are too few for a key; write %d random ones", len(b), minKey))
	}
	return b, err
}

// parseGrants returns the grants in the text of a file. Errors do not quote the text.
func parseGrants(text string) (grants []Grant, err error) {
	for number, line := range linesOf(text) {
		words := strings.Fields(line)
		g := Grant{Token: words[0], Patterns: words[1:], Line: number}
		if len(g.Patterns) > 0 {
			switch strings.ToLower(g.Patterns[0]) {
			case "read":
				g.Patterns = g.Patterns[1:]
			case "write":
				g.Write, g.Patterns = true, g.Patterns[1:]
			}
		}
		if err := checkToken(g.Token, len(grants)); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(grants, func(other Grant) bool { return other.Token == g.Token }); i >= 0 {
			return nil, fmt.Errorf("line %d: the token of line %d again; write all its patterns behind one", number, grants[i].Line)
		}
		for _, p := range g.Patterns {
			if _, err := slashpath.Match(p, ""); err != nil {
				return nil, fmt.Errorf("line %d: a pattern of symbols is invalid; write it like owner/*", number)
			}
		}
		grants = append(grants, g)
	}
	if len(grants) == 0 {
		return nil, errNoToken
	}
	return grants, nil
}
