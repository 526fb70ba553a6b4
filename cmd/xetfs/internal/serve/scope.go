package serve

import (
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
)

// A scope is what a signed token permits. Its text is "KIND DETAIL SYMBOL", so no symbol imitates another
// kind.
//
//	kind    detail             permits
//	read    root               to read the files of one tree
//	read    *                  to read those of all live versions of the symbol
//	upload  session            the same, and to upload in the session
//	object  session:sum:size   to upload one file
type scope struct{ kind, detail, symbol string } // only the symbol may have spaces

// Kinds and details of scopes.
const (
	readScope   = "read"
	uploadScope = "upload"
	objectScope = "object"
	allVersions = "*"
)

// String returns the text of a scope.
func (s scope) String() string { return s.kind + " " + s.detail + " " + s.symbol }

// parseScope is the inverse of String. Another text is io/fs.ErrPermission.
func parseScope(text string) (scope, error) {
	words := strings.SplitN(text, " ", 3)
	if len(words) != 3 {
		return scope{}, iofs.ErrPermission
	}
	return scope{words[0], words[1], words[2]}, nil
}

// verifyScope returns the scope of a token of some kinds. A token of another kind is io/fs.ErrPermission.
func verifyScope(signer *casserve.Signer, token string, kinds ...string) (scope, error) {
	text, err := signer.Verify(token)
	if err != nil {
		return scope{}, err
	}
	s, err := parseScope(text)
	if err == nil && !slices.Contains(kinds, s.kind) {
		err = iofs.ErrPermission
	}
	return s, err
}
