package auth

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strings"
	"syscall"
)

// Bounds of a file of tokens.
const (
	maxToken  = 4 << 10 // bytes
	maxTokens = 100
)

// ReadTokens returns the tokens in a file, one per line. Empty lines are skipped. The file must
// belong to this user, and no other user may have access.
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
	for line := range strings.Lines(text) {
		token := strings.TrimSpace(line)
		switch {
		case token == "":
			continue
		case len(token) > maxToken:
			return nil, fmt.Errorf("a token is longer than %d bytes", maxToken)
		case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, errors.New("a token has other characters than visible ASCII; write one token per line")
		case len(tokens) == maxTokens:
			return nil, fmt.Errorf("more than %d tokens", maxTokens)
		}
		tokens = append(tokens, token)
	}
	if len(tokens) == 0 {
		return nil, errors.New("no token; write one per line")
	}
	return tokens, nil
}
