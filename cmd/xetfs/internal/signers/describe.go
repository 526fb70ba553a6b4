package signers

import (
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/signature"
)

// A Signature describes the signature of a version. The names of its JSON fields are a promise.
type Signature struct {
	Key        string  `json:"key"`        // SHA-256 fingerprint; "": unknown
	Armored    string  `json:"armored"`    // as ssh-keygen reads it; "": unknown
	Valid      *bool   `json:"valid"`      // null: not checked
	Principals *string `json:"principals"` // of the signer; null: not checked, or not valid
	Reason     *string `json:"reason"`     // why it is not valid
}

// Text returns the signature in a line, or "".
func (s *Signature) Text() string {
	switch {
	case s == nil:
		return ""
	case s.Principals != nil:
		return "signed by " + *s.Principals
	case s.Reason != nil:
		return "refused: " + *s.Reason
	}
	return "signed by " + s.Key + " (not checked)"
}

// A Describe returns the signature of a version of a symbol; nil: there is nothing to say about it.
type Describe func(symbol string, row names.Row) *Signature

// NewDescribe returns a Describe for the versions of one catalog. Without allowed signers, it
// checks no signature.
func NewDescribe(allowed *signature.Allowed, catalogID string) Describe {
	return func(symbol string, row names.Row) *Signature {
		if row.Sig == "" && allowed == nil {
			return nil
		}
		s := new(Signature)
		s.Key, _ = signature.Fingerprint(row.Sig) // "" for a malformed one
		s.Armored, _ = signature.Armor(row.Sig)
		if allowed == nil {
			return s
		}
		principals, err := allowed.Verify(catalogID, symbol, row)
		valid := err == nil
		s.Valid = &valid
		if valid {
			s.Principals = &principals
		} else {
			reason := err.Error()
			s.Reason = &reason
		}
		return s
	}
}
