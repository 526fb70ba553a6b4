package auth

import (
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// canary is a secret that no error may contain.
const canary = "CANARY-7f3a"

func write(t *testing.T, text string, mode os.FileMode) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// S07, S08: a file of tokens is private and bounded, and no error quotes it.
func TestS07_ReadTokens(t *testing.T) {
	tests := []struct {
		name, text string
		mode       os.FileMode
		want       []string
		problem    string // in the error; "": no error
	}{
		{"one", canary + "\n", 0o600, []string{canary}, ""},
		{"without a newline", canary, 0o400, []string{canary}, ""},
		{"several", "a\n\n b \r\nc\n", 0o600, []string{"a", "b", "c"}, ""},
		{"comments", "# heading\n" + canary + "\n #\n", 0o600, []string{canary}, ""},
		{"comment alone", "#" + canary, 0o600, nil, "no token"},
		{"empty", "", 0o600, nil, "no token"},
		{"blank", " \n\n", 0o600, nil, "no token"},
		{"two words", canary + " x\n", 0o600, nil, "visible ASCII"},
		{"control character", canary + "\x00\n", 0o600, nil, "visible ASCII"},
		{"letter outside ASCII", canary + "é\n", 0o600, nil, "visible ASCII"},
		{"long token", canary + strings.Repeat("x", maxToken), 0o600, nil, "longer than 4096 bytes"},
		{"many tokens", strings.Repeat(canary+"\n", maxTokens+1), 0o600, nil, "more than 100 tokens"},
		{"large file", strings.Repeat("\n", maxFile+1), 0o600, nil, "larger than 131072 bytes"},
		{"group", canary, 0o640, nil, "other users have access (mode 0640); chmod it to 0600"},
		{"others", canary, 0o604, nil, "other users have access"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.text, tt.mode)
			got, err := ReadTokens(path)
			checkProblem(t, err, path, tt.problem)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%d tokens, want %d", len(got), len(tt.want))
			}
		})
	}
}

// checkProblem compares an error with its text, and looks for secrets in it.
func checkProblem(t *testing.T, err error, path, want string) {
	t.Helper()
	switch {
	case (err != nil) != (want != ""):
		t.Errorf("error %v, want %q", err, want)
	case err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), canary)):
		t.Errorf("error %v, want %q", err, want)
	}
}

// manyGrants returns a file with n tokens.
func manyGrants(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d x\n", canary, i)
	}
	return b.String()
}

// A file of a server has patterns of symbols behind its tokens, and no error quotes it.
func TestS07_ReadGrants(t *testing.T) {
	tests := []struct {
		name, text string
		mode       os.FileMode
		want       []Grant
		problem    string
	}{
		{"token alone", canary + "\n", 0o600, []Grant{{canary, false, nil, 1}}, ""},
		{"patterns", "a x/* y\n\n b\tz/**\r\nc\n", 0o600, []Grant{{"a", false, []string{"x/*", "y"}, 1}, {"b", false, []string{"z/**"}, 3}, {"c", false, nil, 4}}, ""},
		{"scopes", "a read\nb Write x/* read\nc write\nd READ write\n", 0o600, []Grant{{"a", false, nil, 1}, {"b", true, []string{"x/*", "read"}, 2}, {"c", true, nil, 3}, {"d", false, []string{"write"}, 4}}, ""},
		{"comments", "# write\n#\n  # b write\na x/*\n", 0o600, []Grant{{"a", false, []string{"x/*"}, 4}}, ""},
		{"token twice", canary + " write a/*\nb\n" + canary + " read b/*\n", 0o600, nil, "line 3: the token of line 1 again"},
		{"broken pattern", "a\n" + canary + " [" + canary + "\n", 0o600, nil, "line 2: a pattern of symbols is invalid"},
		{"control character", canary + "\x00 x\n", 0o600, nil, "visible ASCII"},
		{"empty", "\n", 0o600, nil, "no token"},
		{"many tokens", manyGrants(maxTokens + 1), 0o600, nil, "more than 100 tokens"},
		{"group", canary, 0o640, nil, "other users have access (mode 0640); chmod it to 0600"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.text, tt.mode)
			got, err := ReadGrants(path)
			checkProblem(t, err, path, tt.problem)
			equal := func(a, b Grant) bool {
				return a.Token == b.Token && a.Write == b.Write && a.Line == b.Line && slices.Equal(a.Patterns, b.Patterns)
			}
			if !slices.EqualFunc(got, tt.want, equal) {
				t.Errorf("%d grants, want %d", len(got), len(tt.want))
			}
		})
	}
}

// A pipe or folder in the place of the file is refused without a wait.
func TestReadTokensNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "not a regular file", pipe: "not a regular file", filepath.Join(dir, "absent"): "no such file"} {
		_, err := ReadTokens(path)
		checkProblem(t, err, path, want)
	}
}

func TestFindLogin(t *testing.T) {
	tests := []struct {
		name, netrc string
		want        Login // zero: none
		problem     string
	}{
		{"one line", "machine h login me password p", Login{"me", "p"}, ""},
		{"several lines", "machine h\n\tlogin me\n\tpassword p\n", Login{"me", "p"}, ""},
		{"host in capitals", "machine H login me password p", Login{"me", "p"}, ""},
		{"second machine", "machine other login a password b\nmachine h login me password p", Login{"me", "p"}, ""},
		{"all on one line", "machine other login a password b machine h login me password p", Login{"me", "p"}, ""},
		{"the first of two", "machine h login a password b\nmachine h login c password d", Login{"a", "b"}, ""},
		{"the first with a password", "machine h login a\nmachine h login c password d", Login{"c", "d"}, ""},
		{"no login", "machine h password p", Login{"", "p"}, ""},
		{"account", "machine h account password login me password p", Login{"me", "p"}, ""},
		{"keyword as password", "machine h login me password machine", Login{"me", "machine"}, ""},
		{"password with a hash", "machine h login me password #p", Login{"me", "#p"}, ""},
		{"comment", "# machine h login a password b\nmachine h login me password p", Login{"me", "p"}, ""},
		{"quotes", `machine h login "my name" password "a \"b\" \\ \t"`, Login{"my name", "a \"b\" \\ \t"}, ""},
		{"empty quotes", `machine h login "" password p`, Login{"", "p"}, ""},
		{"macro", "macdef init\nmachine h login a password b\n\nmachine h login me password p", Login{"me", "p"}, ""},
		{"macro without end", "macdef init\nmachine h login a password b", Login{}, ""},
		{"unknown words", "nonsense machine h port 80 login me password p", Login{"me", "p"}, ""},
		{"carriage returns", "machine h\r\nlogin me\r\npassword p\r\n", Login{"me", "p"}, ""},
		{"default", "default login a password b", Login{}, ""},
		{"default ends a machine", "machine h login a\ndefault login b password c", Login{}, ""},
		{"other machine", "machine hh login a password b", Login{}, ""},
		{"ends early", "machine h login me password", Login{}, ""},
		{"empty", "", Login{}, ""},
		{"open quote", "machine h\nlogin \"me", Login{}, "line 2: a quoted word does not end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, err := FindLogin(tt.netrc, "h")
			if got != tt.want || ok != (tt.want != Login{}) {
				t.Errorf("FindLogin = %+v, %t, want %+v", got, ok, tt.want)
			}
			if (err != nil) != (tt.problem != "") || err != nil && err.Error() != tt.problem {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
		})
	}
}

func TestIsUnreachable(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{unix.ENOENT, true},
		{unix.ENOTDIR, true},
		{unix.EACCES, true},
		{unix.EIO, false},
		{unix.EMFILE, false},
	}
	for _, tt := range tests {
		if got := isUnreachable(at(".netrc", &iofs.PathError{Op: "open", Err: tt.err})); got != tt.want {
			t.Errorf("isUnreachable(%v) = %t, want %t", tt.err, got, tt.want)
		}
	}
}

// FuzzFindLogin checks that the parser never panics, and that each login has a password.
func FuzzFindLogin(f *testing.F) {
	f.Add("machine h login me password p")
	f.Add("macdef x\n\nmachine h\npassword \"a\\\"\"")
	f.Add("default login a # password b")
	f.Fuzz(func(t *testing.T, text string) {
		l, ok, err := FindLogin(text, "h")
		if err != nil && ok || ok != (l.Password != "") {
			t.Errorf("FindLogin = %+v, %t, %v", l, ok, err)
		}
	})
}

func TestAuthorization(t *testing.T) {
	tokens := write(t, canary+"\nother\n", 0o600)
	netrc := write(t, "machine h login me password "+canary, 0o644)
	broken := write(t, "machine h login \""+canary, 0o600)
	absent := filepath.Join(t.TempDir(), "absent")
	tests := []struct {
		name    string
		client  Client
		want    string
		problem string // "": no error
	}{
		{"token", Client{TokenFile: tokens, Netrc: netrc, Host: "h"}, "Bearer " + canary, ""},
		{"netrc", Client{Netrc: netrc, Host: "h"}, "Basic bWU6Q0FOQVJZLTdmM2E=", ""},
		{"other host", Client{Netrc: netrc, Host: "i"}, "", ""},
		{"neither", Client{Host: "h"}, "", ""},
		{"no default netrc", Client{Netrc: absent, Default: true}, "", ""},
		{"home is a file", Client{Netrc: filepath.Join(netrc, ".netrc"), Default: true}, "", ""},
		{"no netrc", Client{Netrc: absent}, "", absent + ": no such file"},
		{"no token file", Client{TokenFile: absent, Netrc: netrc, Host: "h"}, "", "XETFS_TOKEN_FILE: " + absent + ": no such file"},
		{"broken netrc", Client{Netrc: broken, Host: "h"}, "", broken + ": line 1: a quoted word does not end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.client.Authorization()
			if got != tt.want {
				t.Errorf("Authorization = %q, want %q", got, tt.want)
			}
			checkProblem(t, err, "", tt.problem)
			if os.IsNotExist(err) {
				t.Errorf("%v is ErrNotExist", err)
			}
		})
	}
}
