package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/auth"
)

// RequireToken answers as h does to requests with one of the tokens in a file, and 401 to all
// others. It reads the file again when it changes.
func RequireToken(file string, h http.Handler, log *slog.Logger) (http.Handler, error) {
	r, err := newReloader("the token file", func() (tokenSums, error) { return loadTokens(file) }, log)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !r.get().allow(req.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="xetfs"`)
			http.Error(w, "a token is required", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, req)
	}), nil
}

// tokenSums are the SHA-256 sums of the tokens. Sums of one length are compared in constant time.
type tokenSums [][sha256.Size]byte

func loadTokens(file string) (sums tokenSums, err error) {
	tokens, err := auth.ReadTokens(file)
	for _, token := range tokens {
		sums = append(sums, sha256.Sum256([]byte(token)))
	}
	return sums, err
}

// allow reports whether a header "Bearer TOKEN" has one of the tokens.
func (s tokenSums) allow(header string) bool {
	scheme, token, _ := strings.Cut(header, " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	found := 0
	for i := range s {
		found |= subtle.ConstantTimeCompare(s[i][:], sum[:])
	}
	return found == 1 && strings.EqualFold(scheme, "Bearer")
}
