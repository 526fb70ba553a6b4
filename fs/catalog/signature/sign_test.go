package signature

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

const (
	catalogID    = "000102030405060708090a0b0c0d0e0f"
	otherCatalog = "ffffffffffffffffffffffffffffffff"
	symbol       = "org/model"
)

var someRow = names.Row{
	Number: 3, Time: time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC), Root: page.Hash{3}, Identity: page.Identity{1, 2}, Entries: 4, Bytes: 500,
}

// testKeys are one private key of each type. An RSA key takes long to make.
var testKeys = sync.OnceValue(func() map[string]crypto.PrivateKey {
	_, ed, err1 := ed25519.GenerateKey(rand.Reader)
	ec, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	r, err3 := rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err1, err2, err3); err != nil {
		panic(err)
	}
	return map[string]crypto.PrivateKey{"ed25519": ed, "ecdsa": ec, "rsa": r}
})

func noAgent() (io.ReadWriteCloser, error) { return nil, errors.New("no agent") }

// key returns the key of a type and its line in an allowed_signers file, behind the principal.
func key(t testing.TB, kind string) (k *Key, line string) {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(testKeys()[kind])
	if err != nil {
		t.Fatal(err)
	}
	if k, err = newKey(signer, nil); err != nil {
		t.Fatal(err)
	}
	return k, string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
}

// signed returns someRow with a signature.
func signed(t testing.TB, k *Key) names.Row {
	t.Helper()
	row := someRow
	var err error
	if row.Sig, err = k.Sign(t.Context(), catalogID, symbol, row); err != nil {
		t.Fatal(err)
	}
	return row
}

func allowed(t testing.TB, text string) *Allowed {
	t.Helper()
	a, err := ParseAllowed([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestText(t *testing.T) {
	want := "xetfs version 1\n" + catalogID + "\norg/model\n3\n1772366400000000005\n0102" + strings.Repeat("00", 30) + "\n4\n500\n"
	if got := string(Text(catalogID, symbol, someRow)); got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
}

// Each reason to refuse a version has its message.
func TestVerify(t *testing.T) {
	ed, edLine := key(t, "ed25519")
	_, rsaLine := key(t, "rsa")
	good := signed(t, ed)
	change := func(change func(*names.Row)) names.Row {
		row := good
		change(&row)
		return row
	}
	foreign := func(namespace string) names.Row {
		sig, err := sshsig.Sign(bytes.NewReader(Text(catalogID, symbol, someRow)), ed.signer, sshsig.HashSHA256, namespace)
		if err != nil {
			t.Fatal(err)
		}
		row := someRow
		if row.Sig, err = encode(sig); err != nil {
			t.Fatal(err)
		}
		return row
	}
	altered := "its signature is for another text: the number, time, tree, symbol or catalog differs"
	tests := []struct {
		name            string
		line            string
		catalog, symbol string
		row             names.Row
		want            string // error, or principals
	}{
		{"good", "me@example.org " + edLine, catalogID, symbol, good, "me@example.org"},
		{"several principals", "a,b " + edLine, catalogID, symbol, good, "a,b"},
		{"quoted principal", `"a b" ` + edLine, catalogID, symbol, good, "a b"},
		{"SHA-256 of the text", "me " + edLine, catalogID, symbol, foreign(Namespace), "me"},
		{"namespace allowed", `me namespaces="git,x*fs" ` + edLine, catalogID, symbol, good, "me"},
		{"valid then", "me valid-after=20260301Z,valid-before=20260301120000Z " + edLine, catalogID, symbol, good, "me"},
		{"second line is good", "you valid-before=20250101 " + edLine + "me " + edLine, catalogID, symbol, good, "me"},

		{"removed signature", "me " + edLine, catalogID, symbol, someRow, "it has no signature"},
		{"wrong signer", "me " + rsaLine, catalogID, symbol, good, "it is signed with key " + ed.Fingerprint() + ", which is not allowed"},
		{"wrong namespace", "me " + edLine, catalogID, symbol, foreign("git"), `its signature is for namespace "git", not xetfs`},
		{"namespace not allowed", `me namespaces="git" ` + edLine, catalogID, symbol, good, `its signer me may sign in namespaces "git" alone (line 1)`},
		{"expired", "# keys\nme valid-before=20260301115959Z " + edLine, catalogID, symbol, good, "its signer me was valid before 2026-03-01T11:59:59Z, and it is from after (line 2)"},
		{"not yet valid", "me valid-after=202603011201Z " + edLine, catalogID, symbol, good, "its signer me is valid after 2026-03-01T12:01:00Z, and it is from before (line 1)"},
		{"other symbol", "me " + edLine, catalogID, "org/other", good, altered},
		{"other catalog", "me " + edLine, otherCatalog, symbol, good, altered},
		{"other number", "me " + edLine, catalogID, symbol, change(func(r *names.Row) { r.Number++ }), altered},
		{"other time", "me " + edLine, catalogID, symbol, change(func(r *names.Row) { r.Time = r.Time.Add(1) }), altered},
		{"other tree", "me " + edLine, catalogID, symbol, change(func(r *names.Row) { r.Identity[5] ^= 1 }), altered},
		{"other entries", "me " + edLine, catalogID, symbol, change(func(r *names.Row) { r.Entries++ }), altered},
		{"other bytes", "me " + edLine, catalogID, symbol, change(func(r *names.Row) { r.Bytes-- }), altered},
		{"not base64", "me " + edLine, catalogID, symbol, change(func(r *names.Row) { r.Sig = "?" }), "its signature is malformed: "},
		{"cut", "me " + edLine, catalogID, symbol, change(func(r *names.Row) { r.Sig = r.Sig[:40] }), "its signature is malformed: "},
		{"too long", "me " + edLine, catalogID, symbol, change(func(r *names.Row) { r.Sig = strings.Repeat("A", 8196) }), "its signature is malformed: signature of 8196 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := allowed(t, tt.line).Verify(tt.catalog, tt.symbol, tt.row)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || err == nil && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// An RSA signature with SHA-1 is refused, as ssh-keygen does.
func TestVerifySHA1(t *testing.T) {
	k, line := key(t, "rsa")
	row := signed(t, k)
	sig, err := decode(row.Sig)
	if err != nil {
		t.Fatal(err)
	}
	sig.Signature.Format = ssh.KeyAlgoRSA
	row.Sig = base64.StdEncoding.EncodeToString(sig.Marshal())
	if _, err := allowed(t, "me "+line).Verify(catalogID, symbol, row); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("error is %v", err)
	}
}

func TestParseAllowed(t *testing.T) {
	_, line := key(t, "ed25519")
	_, ecLine := key(t, "ecdsa")
	word, blob, _ := strings.Cut(strings.TrimSpace(line), " ")
	tests := []struct{ name, text, want string }{
		{"nothing", "", "it names no signer"},
		{"only comments", "# a\n\n \t\n", "it names no signer"},
		{"one", "me " + line, ""},
		{"tabs, comment, CR", "\tme\t" + strings.TrimSpace(line) + " a comment with \"\r\n", ""},
		{"all options", `me namespaces="git, xetfs",valid-after=20200101,valid-before="20300101" ` + line, ""},
		{"upper case option", `me NAMESPACES="xetfs" ` + line, ""},
		{"no key", "# a\nme\n", "line 2: \"\" is no type of key"},
		{"no principal", line, "line 1: "},
		{"negated principals", "!me,!you " + line, "line 1: its principals are all negated: no signer matches them"},
		{"negated and other principals", "!me,* " + line, ""},
		{"times in UTC", "me valid-after=20200101Z,valid-before=202701011200UTC " + line, ""},
		{"certificate", "me cert-authority " + line, "line 1: cert-authority is not supported: name the keys of the signers themselves"},
		{"certificate and more", `me cert-authority,namespaces="xetfs" ` + line, "line 1: cert-authority is not supported"},
		{"unknown option", "me " + line + "me verify-required " + ecLine, `line 2: option "verify-required" is not known; want namespaces, valid-after or valid-before`},
		{"option twice", "me valid-after=20200101,valid-after=20200102 " + line, `line 1: option "valid-after" is given twice`},
		{"empty namespaces", "me namespaces= " + line, `line 1: option "namespaces=" is not known`},
		{"bad time", "me valid-after=2020 " + line, `line 1: valid-after: "2020" is no time like 20260301 or 20260301120000Z`},
		{"bad day", "me valid-after=20200230 " + line, `line 1: valid-after: "20200230" is no time`},
		{"no interval", "me valid-after=20200102,valid-before=20200101 " + line, "line 1: valid-before is not behind valid-after"},
		{"other type", "me ssh-dss " + blob, `line 1: "ssh-dss" is no type of key; want one of ssh-ed25519, `},
		{"false type", "me ssh-rsa " + blob, "line 1: its key is of type \"ssh-ed25519\", not ssh-rsa"},
		{"not base64", "me " + word + " ????", "line 1: its key is not in base64"},
		{"cut key", "me " + word + " " + blob[:40], "line 1: its key is damaged: "},
		{"open quote", `me namespaces="xetfs ` + line, "line 1: options: a quote does not end"},
		{"too long", strings.Repeat("#", MaxAllowed+1), "1048577 bytes, at most 1048576 are allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseAllowed([]byte(tt.text))
			got := fmt.Sprint(err)
			if err == nil {
				got = ""
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && err != nil {
				t.Errorf("error is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMatchesAny(t *testing.T) {
	tests := []struct {
		patterns string
		want     bool
	}{
		{"xetfs", true}, {"git,xetfs", true}, {"git, xetfs", true}, {"*", true}, {"x?tfs", true}, {"x*s", true}, {"*f*", true}, {"xetfs*", true},
		{"git", false}, {"xetf", false}, {"?xetfs", false}, {"*,!xetfs", false}, {"!xetfs,*", false}, {"!git", false}, {"x*t", false}, {"", false},
		{strings.Repeat("*x", 1000), false},
	}
	for _, tt := range tests {
		if got := matchesAny(tt.patterns, "xetfs"); got != tt.want {
			t.Errorf("%.40q: %t, want %t", tt.patterns, got, tt.want)
		}
	}
}

func FuzzParseAllowed(f *testing.F) {
	_, line := key(f, "ed25519")
	f.Add([]byte("me " + line))
	f.Add([]byte(`"a b" namespaces="git,x",valid-after=20200101Z,valid-before="20300101" ` + line))
	f.Add([]byte("# a\n\nme cert-authority " + line))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ParseAllowed(text)
		if err != nil {
			return
		}
		for _, lines := range a.signers {
			for _, s := range lines {
				if s.principals == "" || s.line < 1 || s.line > bytes.Count(text, []byte("\n"))+1 {
					t.Errorf("signer is %+v", s)
				}
				_ = s.allows(someRow.Time)
			}
		}
	})
}

func FuzzVerify(f *testing.F) {
	k, line := key(f, "ed25519")
	row := signed(f, k)
	a := allowed(f, "me "+line)
	blob, err := base64.StdEncoding.DecodeString(row.Sig)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(blob)
	f.Fuzz(func(t *testing.T, b []byte) {
		row := someRow
		row.Sig = base64.StdEncoding.EncodeToString(b)
		if _, err := a.Verify(catalogID, symbol, row); err == nil && !bytes.Equal(b, blob) {
			again, err := decode(row.Sig)
			if err != nil || again.Namespace != Namespace {
				t.Errorf("other bytes are a valid signature: %x", b)
			}
		}
	})
}

// run runs a program of OpenSSH.
func run(t *testing.T, stdin []byte, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("%s is not installed", name)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// write writes a file that only this user can read.
func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// keyFile returns a private key as ssh-keygen writes it.
func keyFile(t *testing.T, kind, passphrase string) []byte {
	t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(testKeys()[kind], "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(testKeys()[kind], "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

// The programs ssh-keygen and xetfs accept the signatures of each other.
func TestKeygen(t *testing.T) {
	text := Text(catalogID, symbol, someRow)
	for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			_, line := key(t, kind)
			file := keyFile(t, kind, "")
			k, err := ParseKey(file, noAgent)
			if err != nil {
				t.Fatal(err)
			}
			armored, err := Armor(signed(t, k).Sig)
			if err != nil {
				t.Fatal(err)
			}
			signers, sig := write(t, "allowed", []byte("me "+line)), write(t, "sig", []byte(armored))
			out, err := run(t, text, "ssh-keygen", "-Y", "verify", "-f", signers, "-I", "me", "-n", "xetfs", "-s", sig)
			if err != nil {
				t.Errorf("ssh-keygen refuses a signature of xetfs: %v: %s", err, out)
			}
			if out, err := run(t, slices.Concat(text, []byte("x")), "ssh-keygen", "-Y", "verify", "-f", signers, "-I", "me", "-n", "xetfs", "-s", sig); err == nil {
				t.Errorf("ssh-keygen accepts another text: %s", out)
			}

			message := write(t, "text", text)
			if out, err := run(t, nil, "ssh-keygen", "-Y", "sign", "-n", "xetfs", "-f", write(t, "id", file), message); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			theirs, err := os.ReadFile(message + ".sig")
			if err != nil {
				t.Fatal(err)
			}
			row := someRow
			if row.Sig, err = Unarmor(theirs, catalogID, symbol, row); err != nil {
				t.Fatal(err)
			}
			if got, err := allowed(t, "me "+line).Verify(catalogID, symbol, row); err != nil || got != "me" {
				t.Errorf("signer is %q, %v", got, err)
			}
			if _, err := Unarmor(theirs, otherCatalog, symbol, row); !errors.Is(err, errAltered) {
				t.Errorf("signature in another catalog: %v", err)
			}
			if _, err := Unarmor([]byte("no signature"), catalogID, symbol, row); err == nil {
				t.Error("a text without a signature is accepted")
			}
		})
	}
}

// No line of allowed signers allows a certificate, so a signature by one is refused.
func TestUnarmor_Certificate(t *testing.T) {
	ed, _ := key(t, "ed25519")
	cert := &ssh.Certificate{Key: ed.signer.PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, ed.signer); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, ed.signer)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := sshsig.Sign(bytes.NewReader(Text(catalogID, symbol, someRow)), signer, sshsig.HashSHA512, Namespace)
	if err != nil {
		t.Fatal(err)
	}
	want := "a key of type ssh-ed25519-cert-v01@openssh.com cannot sign"
	if _, err := Unarmor(sshsig.Armor(sig), catalogID, symbol, someRow); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// sshAgent starts an agent and returns its socket.
func sshAgent(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent")
	if _, err := exec.LookPath("ssh-agent"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("ssh-agent is not installed")
	}
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "ssh-agent", "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	for range 1000 {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return socket
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the agent does not listen")
	return ""
}

// A public key, or a private one with a passphrase, signs through the agent.
func TestAgent(t *testing.T) {
	socket := sshAgent(t)
	dial := func() (io.ReadWriteCloser, error) { return net.Dial("unix", socket) }
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	keys := agent.NewClient(conn)
	for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
		t.Run(kind, func(t *testing.T) {
			_, line := key(t, kind)
			locked := keyFile(t, kind, "secret")
			for name, file := range map[string][]byte{"public": []byte(line), "locked": locked} {
				if k, err := ParseKey(file, dial); err == nil || !strings.Contains(err.Error(), "ssh-add") {
					t.Errorf("%s key that the agent lacks: %v, %v", name, k, err)
				}
			}
			if err := keys.Add(agent.AddedKey{PrivateKey: testKeys()[kind]}); err != nil {
				t.Fatal(err)
			}
			for name, file := range map[string][]byte{"public": []byte(line), "locked": locked} {
				k, err := ParseKey(file, dial)
				if err != nil {
					t.Fatalf("%s key: %v", name, err)
				}
				if got, err := allowed(t, "me "+line).Verify(catalogID, symbol, signed(t, k)); err != nil || got != "me" {
					t.Errorf("%s key: signer is %q, %v", name, got, err)
				}
				if err := k.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestParseKey(t *testing.T) {
	_, line := key(t, "ed25519")
	tests := []struct {
		name, want string
		file       []byte
	}{
		{"not a key", "it is neither a private key of OpenSSH nor a public one", []byte("hello\n")},
		{"nothing", "it is neither a private key of OpenSSH nor a public one", nil},
		{"public, no agent", "no agent", []byte(line)},
		{"locked, no agent", "it has a passphrase; add it to the ssh-agent with ssh-add (no agent)", keyFile(t, "ed25519", "secret")},
	}
	for _, tt := range tests {
		if _, err := ParseKey(tt.file, noAgent); err == nil || err.Error() != tt.want {
			t.Errorf("%s: error is %v, want %s", tt.name, err, tt.want)
		}
	}
}

// A canceled context ends the wait for an agent.
func TestSignCanceled(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	go func() { // an agent with a key that waits for its user
		keys := agent.NewKeyring()
		_ = keys.Add(agent.AddedKey{PrivateKey: testKeys()["ed25519"]})
		_ = agent.ServeAgent(waitingAgent{keys}, server)
	}()
	_, line := key(t, "ed25519")
	k, err := ParseKey([]byte(line), func() (io.ReadWriteCloser, error) { return client, nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := k.Sign(ctx, catalogID, symbol, someRow); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

type waitingAgent struct{ agent.Agent }

func (waitingAgent) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) { select {} }
