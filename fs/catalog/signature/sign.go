package signature

import (
	"bytes"
	"context"
	_ "crypto/sha256" // of signatures
	_ "crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/xetfs/xetfs/codec/names"
)

// MaxKeyFile bounds the file of a key in bytes.
const MaxKeyFile = 64 << 10

// A Key signs versions. It must be closed.
type Key struct {
	signer ssh.Signer
	agent  io.Closer // nil: the key is in memory
}

// A Dial connects to the agent of ssh.
type Dial func() (io.ReadWriteCloser, error)

// ParseKey reads a private key that needs no passphrase. For a public key, and for a private key
// with a passphrase, it returns the private key in the agent.
func ParseKey(file []byte, dial Dial) (*Key, error) {
	signer, err := ssh.ParsePrivateKey(file)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return newKey(signer, nil)
	case errors.As(err, &locked) && locked.PublicKey == nil:
		return nil, errLocked
	case errors.As(err, &locked):
		key, err := agentKey(locked.PublicKey, dial)
		if err != nil {
			return nil, fmt.Errorf("%w (%w)", errLocked, err)
		}
		return key, nil
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(file) //nolint:dogsled // only the key counts
	if err != nil {
		return nil, errors.New("it is neither a private key of OpenSSH nor a public one")
	}
	return agentKey(public, dial)
}

// errLocked reports a private key with a passphrase that no agent has.
var errLocked = errors.New("it has a passphrase; add it to the ssh-agent with ssh-add")

// agentKey returns the key in the agent that belongs to a public one.
func agentKey(public ssh.PublicKey, dial Dial) (*Key, error) {
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the ssh-agent does not answer: %w", err), conn.Close())
	}
	i := slices.IndexFunc(signers, func(s ssh.Signer) bool { return bytes.Equal(s.PublicKey().Marshal(), public.Marshal()) })
	if i < 0 {
		return nil, errors.Join(fmt.Errorf("the ssh-agent lacks key %s; add it with ssh-add", ssh.FingerprintSHA256(public)), conn.Close())
	}
	return newKey(signers[i], conn)
}

func newKey(signer ssh.Signer, agent io.Closer) (*Key, error) {
	k := &Key{signer, agent}
	if err := checkType(signer.PublicKey()); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// checkType refuses a key of a type that no reader accepts.
func checkType(key ssh.PublicKey) error {
	if !slices.Contains(keyTypes, key.Type()) {
		return fmt.Errorf("a key of type %.80s cannot sign", key.Type())
	}
	return nil
}

// Close ends the connection to the agent.
func (k *Key) Close() error {
	if k.agent == nil {
		return nil
	}
	return k.agent.Close()
}

// Fingerprint returns the SHA-256 fingerprint of the key as ssh-keygen prints it.
func (k *Key) Fingerprint() string { return ssh.FingerprintSHA256(k.signer.PublicKey()) }

// Sign returns the signature of one version of a symbol. An agent may wait for its user. The end
// of ctx then closes the connection to the agent.
func (k *Key) Sign(ctx context.Context, catalogID, symbol string, row names.Row) (string, error) {
	if k.agent != nil {
		defer context.AfterFunc(ctx, func() { _ = k.agent.Close() })() // Sign returns its error
	}
	text := Text(catalogID, symbol, row)
	sig, err := sshsig.Sign(bytes.NewReader(text), k.signer, sshsig.HashSHA512, Namespace)
	if err == nil {
		err = sshsig.Verify(bytes.NewReader(text), sig, k.signer.PublicKey(), sig.HashAlgorithm, Namespace)
	}
	if err != nil {
		return "", errors.Join(ctx.Err(), fmt.Errorf("key %s: %w", k.Fingerprint(), err))
	}
	return encode(sig)
}

// encode returns the form of a signature in a row.
func encode(sig *sshsig.Signature) (string, error) {
	text := base64.StdEncoding.EncodeToString(sig.Marshal())
	return text, names.CheckSignature(text)
}

// decode is the inverse of encode.
func decode(text string) (*sshsig.Signature, error) {
	if err := names.CheckSignature(text); err != nil {
		return nil, err
	}
	blob, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return sshsig.ParseSignature(blob)
}

// Fingerprint returns the fingerprint of the key that a signature names. It proves nothing.
func Fingerprint(sig string) (string, error) {
	s, err := decode(sig)
	if err != nil {
		return "", err
	}
	return ssh.FingerprintSHA256(s.PublicKey), nil
}

// Armor returns a signature as ssh-keygen reads it.
func Armor(sig string) (string, error) {
	s, err := decode(sig)
	if err != nil {
		return "", err
	}
	return string(sshsig.Armor(s)), nil
}

// Unarmor reads what ssh-keygen -Y sign has written for one version of a symbol. It checks the
// signature with the key that it names.
func Unarmor(armored []byte, catalogID, symbol string, row names.Row) (string, error) {
	sig, err := sshsig.Unarmor(armored)
	if err != nil {
		return "", fmt.Errorf("it is no signature of ssh-keygen: %w", err)
	}
	if err := checkType(sig.PublicKey); err != nil {
		return "", err
	}
	if err := check(sig, catalogID, symbol, row); err != nil {
		return "", err
	}
	return encode(sig)
}

// errAltered is the reason why a good signature does not belong to a version.
var errAltered = errors.New("its signature is for another text: the number, time, tree, symbol or catalog differs")

// check compares a signature with a version by the key that it names.
func check(sig *sshsig.Signature, catalogID, symbol string, row names.Row) error {
	if sig.Namespace != Namespace {
		return fmt.Errorf("its signature is for namespace %.40q, not %s", sig.Namespace, Namespace)
	}
	text := bytes.NewReader(Text(catalogID, symbol, row))
	if err := sshsig.Verify(text, sig, sig.PublicKey, sig.HashAlgorithm, Namespace); err != nil {
		return errAltered
	}
	return nil
}
