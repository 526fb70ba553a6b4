package casserve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Signer makes and checks presigned URLs and tokens. Servers with the same key accept each
// other's. It is safe for concurrent use.
type Signer struct{ urls, tokens []byte }

// minKey is the minimum length of a key in bytes.
const minKey = 32

// NewSigner returns a Signer with a secret key of at least 32 bytes, or with a random key if key
// is empty.
func NewSigner(key []byte) (*Signer, error) {
	switch {
	case len(key) == 0:
		key = make([]byte, minKey)
		_, _ = rand.Read(key) // never fails
	case len(key) < minKey:
		return nil, fmt.Errorf("signing key has %d bytes; use %d random ones", len(key), minKey)
	}
	return &Signer{urls: mac(key, "xetfs urls"), tokens: mac(key, "xetfs tokens")}, nil
}

// mac returns the HMAC-SHA256 of fields, each behind its length.
func mac(key []byte, fields ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, f := range fields {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f))))
		h.Write([]byte(f))
	}
	return h.Sum(nil)
}

// tokenPrefix begins every token. The JavaScript client refuses others.
const tokenPrefix = "hf_"

// The layout of a token behind its prefix, in base64url without padding:
//
//	offset  size  field
//	     0     8  expiry, Unix seconds, big-endian
//	     8    32  HMAC-SHA256 of expiry and scope
//	    40     …  scope
const (
	tokenMAC   = 8
	tokenScope = tokenMAC + sha256.Size
)

// maxToken bounds a token in characters.
const maxToken = 4096

// Token returns a token for a scope.
func (s *Signer) Token(scope string, expiry time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(expiry.Unix()))
	b = append(b, mac(s.tokens, string(b), scope)...)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(b, scope...))
}

// ErrToken means that a token is not one of this server, or has expired.
var ErrToken = errors.New("the token is not valid")

// Verify returns the scope of a token. An altered or expired token is ErrToken.
func (s *Signer) Verify(token string) (scope string, err error) {
	text, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok || len(token) > maxToken {
		return "", ErrToken
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < tokenScope {
		return "", ErrToken
	}
	scope = string(b[tokenScope:])
	if !hmac.Equal(b[tokenMAC:tokenScope], mac(s.tokens, string(b[:tokenMAC]), scope)) {
		return "", ErrToken
	}
	if expiry := binary.BigEndian.Uint64(b); time.Now().Unix() >= int64(expiry) {
		return "", fmt.Errorf("%w: it has expired; request a new one", ErrToken)
	}
	return scope, nil
}
