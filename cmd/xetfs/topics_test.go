package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/manual"
)

// topicSource returns the file of a topic.
func topicSource(t *testing.T, name string) string {
	t.Helper()
	text, err := topicFiles.ReadFile("docs/" + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTopicExitStatus compares the topic with the constants of this package.
func TestTopicExitStatus(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []int
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 && strings.HasPrefix(v.Names[0].Name, "exit") {
			status, err := strconv.Atoi(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Error(err)
			}
			want = append(want, status)
		}
		return true
	})
	var got []int
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(topicSource(t, "exit-status"), -1) {
		status, _ := strconv.Atoi(row[1])
		got = append(got, status)
	}
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("the topic has %v, the program %v", got, want)
	}
}

// programStrings returns all string literals of the program, without tests.
func programStrings(t *testing.T) (texts []string) {
	t.Helper()
	for _, folder := range []string{"../../cmd", "../../fs", "../../cache", "../../codec", "../../reconstruct"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
				return err
			}
			src, err := os.ReadFile(path)
			texts = append(texts, literals(src)...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// literals returns the string literals of a Go file.
func literals(src []byte) (texts []string) {
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile("", -1, len(src)), src, nil, 0)
	for {
		switch _, tok, lit := s.Scan(); tok {
		case token.EOF:
			return texts
		case token.STRING:
			text, _ := strconv.Unquote(lit)
			texts = append(texts, text)
		}
	}
}

// TestTopicTroubleshooting checks that each heading is a part of a message, and their order.
func TestTopicTroubleshooting(t *testing.T) {
	headings := manual.Headings(topic("troubleshooting"), 2)
	if !slices.IsSorted(headings) {
		t.Error("the headings are not sorted")
	}
	all := strings.Join(programStrings(t), "\x00")
	for _, h := range headings {
		if !strings.Contains(all, h) {
			t.Errorf("no message contains %q", h)
		}
	}
	if len(headings) < 20 {
		t.Errorf("%d headings", len(headings))
	}
}

// TestTopicEnvironment checks that the topic has every variable that the program reads.
func TestTopicEnvironment(t *testing.T) {
	variable := regexp.MustCompile(`^(XETFS|XDG|HF|AWS|SSL|HUGGING)_[A-Z0-9_]+$`)
	seen := map[string]bool{}
	for _, text := range programStrings(t) {
		if variable.MatchString(text) && !strings.HasPrefix(text, "XETFS_TEST_") && !strings.HasSuffix(text, "_") {
			seen[text] = true
		}
	}
	source := topicSource(t, "environment")
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(source) {
			t.Errorf("the topic lacks %s", name)
		}
	}
	if len(seen) < 15 {
		t.Errorf("%d variables were found", len(seen))
	}
}

// TestManifests feeds the arguments of all manifests to the parser of the program.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("packaging/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("manifests: %v, %v", files, err)
	}
	args := regexp.MustCompile(`(?m)^ *args: (\[.*\])$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "apiVersion:") {
			continue // no manifest
		}
		found := args.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s has no args", file)
		}
		for _, m := range found {
			var words []string
			if err := json.Unmarshal([]byte(m[1]), &words); err != nil {
				t.Errorf("%s: %v: %s", file, err, m[1])
			}
			wantParsed(t, file, words)
		}
	}
}

// wantParsed checks that the program accepts the flags and the number of arguments.
func wantParsed(t *testing.T, where string, words []string) {
	t.Helper()
	root := newRoot()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: xetfs %s: %v", where, strings.Join(words, " "), err)
	}
}

// TestTopicCommands feeds the command lines of topics, of README and of examples to the parser.
func TestTopicCommands(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"README.md": string(readme)}
	for _, name := range topics() {
		texts[name] = topicSource(t, name)
	}
	for _, cmd := range allCommands() {
		texts[cmd.CommandPath()] = cmd.Example
	}
	n := 0
	for where, text := range texts {
		for _, words := range commandLines(text) {
			n++
			wantParsed(t, where, words)
		}
	}
	if n < 80 {
		t.Errorf("%d command lines were found", n)
	}
}

var (
	continued = regexp.MustCompile(`\\\n *`)
	command   = regexp.MustCompile(`(?m)^ *(?:[A-Z_]+=\S+ )*xetfs ([a-z].*)$`)
	remark    = regexp.MustCompile(`   .*| &&.*| [|>].*|  [a-z(].*`)
	shellWord = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

// commandLines returns the words behind xetfs of each command line in a text. Remarks, pipes and
// further commands are cut off.
func commandLines(text string) (lines [][]string) {
	for _, m := range command.FindAllStringSubmatch(continued.ReplaceAllString(text, " "), -1) {
		lines = append(lines, shellWord.FindAllString(remark.ReplaceAllString(m[1], ""), -1))
	}
	return lines
}
