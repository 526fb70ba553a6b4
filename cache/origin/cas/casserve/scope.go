package casserve

import (
	"net/http"
	"strings"
)

// Scope returns the scope of a request to a handler with this Signer: that of its presigned URL, or
// of its token. An altered or expired one is an error for Fail.
func (s *Signer) Scope(r *http.Request) (string, error) {
	text, ok := strings.CutPrefix(r.URL.Path, transferPath)
	if !ok {
		return s.Verify(bearer(r))
	}
	g, err := s.parseGrant(text, r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	return g.scope, nil
}

// bearer returns the token in the header Authorization; "": none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
