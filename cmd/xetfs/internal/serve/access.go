package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/auth"
)

// An Access decides by its token what a request may read. The zero Access lets every client read
// everything.
type Access struct{ file *reloader[grants] }

// NewAccess returns the Access of a file of tokens. It reads the file again when it changes.
func NewAccess(file string, log *slog.Logger) (Access, error) {
	r, err := newReloader("the token file", func() (grants, error) { return loadGrants(file) }, log)
	return Access{r}, err
}

// A grant is what one token may do.
type grant struct {
	sum      [sha256.Size]byte // of the token: sums of one length are compared in constant time
	write    bool
	patterns []string // of symbols; none: everything
	line     int      // in the file, from 1
}

type grants []grant

func loadGrants(file string) (all grants, err error) {
	tokens, err := auth.ReadGrants(file)
	for _, t := range tokens {
		all = append(all, grant{sha256.Sum256([]byte(t.Token)), t.Write, t.Patterns, t.Line})
	}
	return all, err
}

// WriteProblems returns the reasons why tokens of the file cannot change what they seem to: one
// sentence each, which quotes nothing of the file.
func (a Access) WriteProblems() []string {
	if a.file == nil {
		return nil
	}
	return a.file.get().writeProblems()
}

func (g grants) writeProblems() (problems []string) {
	isReadOnly := true
	for _, t := range g {
		if !t.write {
			continue
		}
		isReadOnly = false
		if slices.ContainsFunc(t.patterns, func(p string) bool { return !fitsRepository(p) }) {
			problems = append(problems, fmt.Sprintf("line %d: a pattern of symbols fits no repository; write it like owner/* or datasets/owner/*", t.line))
		}
	}
	if isReadOnly {
		return []string{"no line has the word write, so every upload is refused; add it behind a token, like: TOKEN write owner/*"}
	}
	return problems
}

// of returns the grant of a request, or nil. The token is in a header "Bearer TOKEN", or is the password of Basic
// authentication, which git-lfs uses.
func (g grants) of(r *http.Request) (found *grant) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	_, password, isBasic := r.BasicAuth()
	if isBasic {
		token = password
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	for i := range g {
		if subtle.ConstantTimeCompare(g[i].sum[:], sum[:]) == 1 {
			found = &g[i]
		}
	}
	if !isBasic && !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return found
}

// matches reports whether the patterns of the token match a symbol.
func (g *grant) matches(symbol string) bool {
	return len(g.patterns) == 0 || slices.ContainsFunc(g.patterns, func(p string) bool {
		ok, _ := path.Match(p, symbol) // auth has checked the pattern
		return ok
	})
}

// grantKey is the key of the grant in the context of a request.
type grantKey struct{}

// clientMayRead reports whether the client of a request may read one of some symbols.
func clientMayRead(ctx context.Context, symbols ...string) bool {
	g, ok := ctx.Value(grantKey{}).(*grant)
	return !ok || slices.ContainsFunc(symbols, g.matches)
}

// Require answers as h does to requests with a token, and 401 to all others.
func (a Access) Require(h http.Handler) http.Handler {
	if a.file == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g := a.file.get().of(r)
		if g == nil {
			refuse(w, r)
			return
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), grantKey{}, g)))
	})
}

// RequireAll answers as h does to requests with a token for everything, and 401 or 403 to all
// others.
func (a Access) RequireAll(h http.Handler) http.Handler {
	return a.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(grantKey{}).(*grant); ok && len(g.patterns) > 0 {
			http.Error(w, "the token is for single symbols", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	}))
}

// refuse answers a request without a valid token. huggingface_hub reads the headers, and advises
// its user to log in.
func refuse(w http.ResponseWriter, r *http.Request) {
	text := "Invalid credentials in Authorization header"
	if r.Header.Get("Authorization") == "" {
		text = "a token is required"
		w.Header().Set("X-Error-Code", "RepoNotFound")
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="xetfs"`)
	w.Header().Set("X-Error-Message", text)
	http.Error(w, text, http.StatusUnauthorized)
}

// ReadKey returns the secret key in a private file.
func ReadKey(file string) ([]byte, error) { return auth.ReadKey(file) }

// User returns a client for whoami. All tokens of a kind have the same name.
func (a Access) User(r *http.Request) hubserve.User {
	if r.Header.Get("Authorization") == "" {
		return hubserve.User{}
	}
	return userOf(r.Context())
}

// userOf returns the client of a request.
func userOf(ctx context.Context) hubserve.User {
	g, ok := ctx.Value(grantKey{}).(*grant)
	switch {
	case !ok:
		return hubserve.User{Name: "anonymous", MayWrite: true}
	case g.write:
		return hubserve.User{Name: "writer", MayWrite: true}
	}
	return hubserve.User{Name: "reader"}
}

// The answers for a repository that the client may not change. They are the same for one that does
// not exist.
var (
	errMayOnlyRead = &hubserve.Refusal{Status: http.StatusForbidden, Text: "the token may only read; the operator of the server can allow uploads with the word write behind it in the token file"}
	errMayNotWrite = &hubserve.Refusal{Status: http.StatusForbidden, Text: "the token may not change this repository; use a token with write access to it"}
)

// refusalOf returns the answer to a client that may not change a repository.
func refusalOf(ctx context.Context) error {
	if userOf(ctx).MayWrite {
		return errMayNotWrite
	}
	return errMayOnlyRead
}

// clientMayWrite reports whether the client of a request may change a symbol.
func clientMayWrite(ctx context.Context, symbol string) bool {
	g, ok := ctx.Value(grantKey{}).(*grant)
	return !ok || g.write && g.matches(symbol)
}
