package ignore

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func ignoring(t fataler, patterns ...string) *Matcher {
	t.Helper()
	g := new(Matcher)
	if _, err := g.ReadFrom(strings.NewReader(strings.Join(patterns, "\n"))); err != nil {
		t.Fatalf("%v", err)
	}
	return g
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// leavesOut reports whether a path or a folder above it is left out. A folder has a slash at
// its end.
func (m *Matcher) leavesOut(path string) bool {
	path, folder := strings.CutSuffix(path, "/")
	names := strings.Split(path, "/")
	for i, name := range names {
		if m.Excludes(names[:i], name, folder || i < len(names)-1) {
			return true
		}
	}
	return false
}

func TestIgnore(t *testing.T) {
	tests := []struct {
		patterns string // with spaces between them
		out, in  string // paths
	}{
		{"*.tmp", "a.tmp .tmp d/e/a.tmp a.tmp/", "a.tmpx tmp a.tm"},
		{"/build", "build build/ build/x", "d/build d/build/ builds"},
		{"doc/*.pdf", "doc/a.pdf", "a.pdf d/doc/a.pdf doc/d/a.pdf"},
		{"cache/", "cache/ d/cache/ cache/x", "cache d/cache"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "b x/a/b a/x/c"},
		{"**/b", "b x/b x/y/b", "a bb"},
		{"**/a/b", "a/b x/a/b", "a/x/b b"},
		{"a/**", "a/b a/b/ a/b/c", "a a/ b"},
		{"a/**/", "a/b/ a/b/c/", "a/ a/b"},
		{"**", "a a/b b/", ""},
		{"a**b", "ab axb", "a/b b"},
		{"x/a**b", "x/ab x/aaab", "x/a/b"},
		{"?", "a d/b", "ab"},
		{"[a-c]x", "ax cx", "dx x aax"},
		{"[!a-c]x", "dx -x", "ax x"},
		{"[^]]", "a", "]"},
		{"[]-]", "] -", "a"},
		{"[a-]", "a -", "b"},
		{`[\]x]`, "] x", `\`},
		{`[\--a]`, "- . a", "b"},
		{`\*`, "*", "a"},
		{`\!a`, "!a", "a"},
		{`\#a`, "#a", "a"},
		{"#a", "", "#a a"},
		{"*.o !keep.o", "a.o", "keep.o d/keep.o"},
		{"!keep.o *.o", "a.o keep.o", ""},
		{"d/ !d/keep", "d/keep d/", "keep"},
		{"d/* !d/keep", "d/a", "d/keep d/"},
		{"/", "", "a a/"},
		{"!", "", "a"},
		{"a//b", "", "a/b"},
		{"*a*b*c", "abc xaxbxc", "acb ab"},
		{"\xff*", "\xffa", "a"},
	}
	for _, tt := range tests {
		t.Run(tt.patterns, func(t *testing.T) {
			g := ignoring(t, strings.Fields(tt.patterns)...)
			for _, path := range strings.Fields(tt.out) {
				if !g.leavesOut(path) {
					t.Errorf("%q is not left out", path)
				}
			}
			for _, path := range strings.Fields(tt.in) {
				if g.leavesOut(path) {
					t.Errorf("%q is left out", path)
				}
			}
		})
	}
}

func TestIgnoreSpaces(t *testing.T) {
	g := ignoring(t, "\ufeffa  ", `b\ `, "c\r", "  d", "", "   ")
	for path, want := range map[string]bool{"a": true, "a  ": false, "b ": true, "b": false, "c": true, "d": false, "  d": true} {
		if g.leavesOut(path) != want {
			t.Errorf("left out %q: %v", path, !want)
		}
	}
}

func TestIgnoreRefuses(t *testing.T) {
	for pattern, why := range map[string]string{
		`a\`: "a backslash with nothing behind it", `a\/b`: "a backslash with nothing behind it", "[a": "a [ without its ]", "[]": "a [ without its ]",
		"[!]": "a [ without its ]", `[\]`: "a [ without its ]", "[a/b]": "a [ without its ]", "[[:alpha:]]": "classes with names are not known here",
		"[": "a [ without its ]", "[!": "a [ without its ]", `x[\`: "a [ without its ]",
	} {
		_, err := new(Matcher).ReadFrom(strings.NewReader("# one\n" + pattern + "\n"))
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: pattern ") || !strings.HasSuffix(err.Error(), ": "+why) {
			t.Errorf("%q: %v, want %q", pattern, err, why)
		}
	}
	if _, err := new(Matcher).ReadFrom(strings.NewReader(strings.Repeat("a\n", 1<<20))); err == nil {
		t.Error("a file without end is read")
	}
}

// TestIgnoreAsGit compares the matcher with git, if git is installed.
func TestIgnoreAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	repo := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", repo).CombinedOutput(); err != nil {
		t.Skipf("%s", out)
	}
	var paths []string
	for _, folder := range []string{"", "a", "b", "a/ab", "a/b", "b/.a", "a/b/a", "a/b/a/b"} {
		if err := os.Mkdir(filepath.Join(repo, folder), 0o700); folder != "" && err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"aa", "ba", ".b", "abb"} {
			paths = append(paths, filepath.Join(folder, name))
		}
		paths = append(paths, strings.TrimPrefix(folder+"/", "/"))
	}
	paths = slices.DeleteFunc(paths, func(s string) bool { return s == "" })
	pattern := rapid.StringMatching(`!?/?(\*\*/)?[ab*?.]{1,3}(/\*\*)?(/(\[!?a-b\]|[ab*?]{1,3}|\\a|\*\*))?/?`).Filter(func(s string) bool {
		// In "a**/b" both asterisks are within a name. Git cuts off the "a" and sees "**/b".
		return !slices.ContainsFunc(strings.Split(strings.TrimPrefix(s, "!"), "/"), func(name string) bool {
			return strings.Contains(name, "**") && name != "**"
		})
	})
	rapid.Check(t, func(t *rapid.T) {
		g := ignoring(t)
		writeIgnore(t, repo, g, rapid.SliceOfN(pattern, 1, 4).Draw(t, "patterns"))
		git := exec.Command("git", "-C", repo, "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin", "-z", "-v", "-n")
		git.Stdin = strings.NewReader(strings.ReplaceAll(strings.Join(paths, "\x00")+"\x00", "/\x00", "\x00"))
		out, _ := git.Output() // exits with 1 if it ignores nothing
		fields := bytes.Split(out, []byte{0})
		if len(fields) != 4*len(paths)+1 {
			t.Fatalf("git says %q", out)
		}
		for i, path := range paths {
			rule := string(fields[4*i+2])
			if want := rule != "" && rule[0] != '!'; g.leavesOut(path) != want {
				t.Fatalf("%q is left out: %v; git says %q", path, !want, rule)
			}
		}
	})
}

// writeIgnore writes the same patterns for git and g.
func writeIgnore(t *rapid.T, repo string, g *Matcher, patterns []string) {
	text := strings.Join(patterns, "\n") + "\n"
	if _, err := g.ReadFrom(strings.NewReader(text)); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(repo, ".git", "info", "exclude"), []byte(text), 0o600); err != nil {
		t.Fatalf("%v", err)
	}
}

func FuzzIgnore(f *testing.F) {
	f.Add("a/**/[!b-c]\\*?", "a/b/c")
	f.Fuzz(func(_ *testing.T, patterns, path string) {
		g := new(Matcher)
		if _, err := g.ReadFrom(strings.NewReader(patterns)); err == nil {
			g.leavesOut(path)
		}
	})
}
