package signature

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/xetfs/xetfs/codec/names"
)

// MaxAllowed bounds an allowed_signers file in bytes.
const MaxAllowed = 1 << 20

// keyTypes are the supported types of keys. RSA keys sign with SHA-2 alone.
var keyTypes = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

// Allowed is the content of an allowed_signers file: a line for each key, as in ssh-keygen(1).
//
//	PRINCIPALS [OPTIONS] TYPE BASE64 [COMMENT]
//
// The options are namespaces="PATTERNS", valid-after=TIME and valid-before=TIME. TIME is
// YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS in local time, or in UTC with Z or UTC behind it. Certificates
// and other options are refused.
type Allowed struct {
	signers map[string][]allowedSigner // by public key in wire format
}

// An allowedSigner is one line.
type allowedSigner struct {
	line          int
	principals    string
	namespaces    string    // patterns; "": all
	after, before time.Time // of a version, in whole seconds; zero: no limit
}

// ParseAllowed reads an allowed_signers file. Errors have the number of the line.
func ParseAllowed(file []byte) (*Allowed, error) {
	if len(file) > MaxAllowed {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(file), MaxAllowed)
	}
	a := &Allowed{signers: map[string][]allowedSigner{}}
	number := 0
	for line := range strings.Lines(string(file)) {
		number++
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		s, key, err := parseSigner(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		s.line = number
		a.signers[key] = append(a.signers[key], s)
	}
	if len(a.signers) == 0 {
		return nil, errors.New("it names no signer")
	}
	return a, nil
}

// parseSigner reads a line. It returns the key in wire format.
func parseSigner(line string) (s allowedSigner, key string, err error) {
	principals, rest, err := cutWord(line)
	if err != nil {
		return s, "", fmt.Errorf("principals: %w", err)
	}
	if s.principals = strings.ReplaceAll(principals, `"`, ""); s.principals == "" {
		return s, "", errors.New("there is no principal in front of the key")
	}
	if !hasPositive(s.principals) {
		return s, "", errors.New("its principals are all negated: no signer matches them")
	}
	word, rest, err := cutWord(rest)
	if err != nil {
		return s, "", fmt.Errorf("options: %w", err)
	}
	if second, _, _ := cutWord(rest); strings.Contains(word, "=") || slices.Contains(keyTypes, second) {
		if err := s.parseOptions(word); err != nil {
			return s, "", err
		}
		word, rest, _ = cutWord(rest)
	}
	if !slices.Contains(keyTypes, word) {
		return s, "", fmt.Errorf("%.40q is no type of key; want one of %s", word, strings.Join(keyTypes, ", "))
	}
	encoded, _, _ := cutWord(rest) // a comment may have any quotes
	blob, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return s, "", errors.New("its key is not in base64")
	}
	public, err := ssh.ParsePublicKey(blob)
	switch {
	case err != nil:
		return s, "", fmt.Errorf("its key is damaged: %w", err)
	case public.Type() != word:
		return s, "", fmt.Errorf("its key is of type %.40q, not %s", public.Type(), word)
	}
	return s, string(public.Marshal()), nil
}

// hasPositive reports whether a list of patterns has one that is not negated.
func hasPositive(patterns string) bool {
	for p := range strings.SplitSeq(patterns, ",") {
		if !strings.HasPrefix(strings.TrimSpace(p), "!") {
			return true
		}
	}
	return false
}

// cutWord returns the first word of a line. A space between double quotes is part of the word.
func cutWord(line string) (word, rest string, err error) {
	quoted := false
	for i := range len(line) {
		switch c := line[i]; {
		case c == '"' && (i == 0 || line[i-1] != '\\'):
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return line[:i], strings.TrimLeft(line[i:], " \t"), nil
		}
	}
	if quoted {
		return line, "", errors.New("a quote does not end")
	}
	return line, "", nil
}

// parseOptions reads the options of a line.
func (s *allowedSigner) parseOptions(text string) error {
	seen := map[string]bool{}
	for text != "" {
		var option string
		option, text = cutOption(text)
		name, value, hasValue := strings.Cut(option, "=")
		name = strings.ToLower(name)
		if seen[name] {
			return fmt.Errorf("option %.40q is given twice", name)
		}
		seen[name] = true
		if unquoted, ok := strings.CutPrefix(value, `"`); ok {
			value = strings.TrimSuffix(unquoted, `"`)
		}
		var err error
		switch {
		case name == "cert-authority":
			return errors.New("cert-authority is not supported: name the keys of the signers themselves")
		case name == "namespaces" && value != "":
			s.namespaces = value
		case name == "valid-after" && hasValue:
			s.after, err = parseTime(value)
		case name == "valid-before" && hasValue:
			s.before, err = parseTime(value)
		default:
			return fmt.Errorf("option %.40q is not known; want namespaces, valid-after or valid-before", option)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if !s.after.IsZero() && !s.before.IsZero() && !s.after.Before(s.before) {
		return errors.New("valid-before is not behind valid-after")
	}
	return nil
}

// cutOption returns the first option, which ends at a comma outside quotes.
func cutOption(text string) (option, rest string) {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// parseTime reads a time of ssh-keygen(1).
func parseTime(text string) (time.Time, error) {
	digits, isUTC := strings.CutSuffix(text, "Z")
	if !isUTC {
		digits, isUTC = strings.CutSuffix(text, "UTC")
	}
	zone := time.Local
	if isUTC {
		zone = time.UTC
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(layout) != len(digits) {
			continue
		}
		if t, err := time.ParseInLocation(layout, digits, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is no time like 20260301 or 20260301120000Z", text)
}

// Verify returns the principals of the signer of one version of a symbol, as the file names them.
// The error is the reason why the version has no valid signature.
func (a *Allowed) Verify(catalogID, symbol string, row names.Row) (principals string, err error) {
	if row.Sig == "" {
		return "", errors.New("it has no signature")
	}
	sig, err := decode(row.Sig)
	if err != nil {
		return "", fmt.Errorf("its signature is malformed: %w", err)
	}
	if err := check(sig, catalogID, symbol, row); err != nil {
		return "", err
	}
	err = fmt.Errorf("it is signed with key %s, which is not allowed", ssh.FingerprintSHA256(sig.PublicKey))
	for _, s := range a.signers[string(sig.PublicKey.Marshal())] {
		if err = s.allows(row.Time); err == nil {
			return s.principals, nil
		}
	}
	return "", err
}

// allows returns the reason why a line does not allow a version of a time.
func (s *allowedSigner) allows(at time.Time) error {
	switch seconds := at.Unix(); {
	case s.namespaces != "" && !matchesAny(s.namespaces, Namespace):
		return fmt.Errorf("its signer %s may sign in namespaces %.80q alone (line %d)", s.principals, s.namespaces, s.line)
	case !s.after.IsZero() && seconds < s.after.Unix():
		return fmt.Errorf("its signer %s is valid after %s, and it is from before (line %d)", s.principals, timeText(s.after), s.line)
	case !s.before.IsZero() && seconds > s.before.Unix():
		return fmt.Errorf("its signer %s was valid before %s, and it is from after (line %d)", s.principals, timeText(s.before), s.line)
	}
	return nil
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// matchesAny reports whether a word matches a list of patterns (PATTERNS in ssh_config(5)).
func matchesAny(patterns, word string) bool {
	found := false
	for p := range strings.SplitSeq(patterns, ",") {
		p, not := strings.CutPrefix(strings.TrimSpace(p), "!")
		if !matches(p, word) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

// matches reports whether a word matches a pattern with * and ?. It needs no recursion: after a
// mismatch, only the last * can match more.
func matches(pattern, word string) bool {
	p, w, star, from := 0, 0, -1, 0
	for w < len(word) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from, p = p, w, p+1
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == word[w]):
			p, w = p+1, w+1
		case star >= 0:
			from++
			p, w = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
