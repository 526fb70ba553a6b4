package main

import (
	"encoding/json"
	"errors"
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

	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/manual"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/mountopts"
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
	eachSource(t, func(src []byte) { texts = append(texts, literals(src)...) })
	return texts
}

// eachSource calls fn for each Go file of the program, without tests.
func eachSource(t *testing.T, fn func(src []byte)) {
	t.Helper()
	for _, folder := range []string{"../../cmd", "../../fs", "../../cache", "../../codec", "../../reconstruct"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
				return err
			}
			src, err := os.ReadFile(path)
			fn(src)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
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
	texts := programStrings(t)
	all := strings.Join(texts, "\x00")
	for _, h := range headings {
		if !strings.Contains(all, h) {
			t.Errorf("no message contains %q", h)
		}
	}
	for _, m := range regexp.MustCompile(`\bevent ([a-z_]+)`).FindAllStringSubmatch(topicSource(t, "troubleshooting"), -1) {
		if !slices.Contains(texts, m[1]) {
			t.Errorf("no log line has the event %s", m[1])
		}
	}
	if len(headings) < 20 {
		t.Errorf("%d headings", len(headings))
	}
}

// eventNames are the names of events in Go code: behind the key of a line, or a constant.
var eventNames = regexp.MustCompile(`"event", "([a-z_]+)"|(?m:^\s*[eE]vent[A-Z]\w*\s*= "([a-z_]+)")`)

// TestTopicOperations compares the tables of events and alerts with the program and the rules.
func TestTopicOperations(t *testing.T) {
	source, texts := topicSource(t, "operations"), programStrings(t)
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z_, ]+|Xetfs\w+) \|`).FindAllStringSubmatch(source, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			listed[name] = true
			if strings.Contains(name, "_") && !slices.Contains(texts, name) {
				t.Errorf("no log line has the event %s", name)
			}
		}
	}
	rules, err := os.ReadFile("packaging/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	eachSource(t, func(src []byte) { names = append(names, eventNames.FindAllStringSubmatch(string(src), -1)...) })
	for _, m := range names {
		if name := m[1] + strings.Join(m[2:], ""); !listed[name] {
			t.Errorf("the topic lacks %s", name)
		}
	}
	if len(names) < 60 {
		t.Errorf("%d events and alerts", len(names))
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

// TestTopicCommands feeds the command lines of topics, of README, of examples and of units to the
// parser.
func TestTopicCommands(t *testing.T) {
	texts := map[string]string{}
	for _, file := range []string{"../../README.md", "packaging/xetfs@.service", "packaging/user/xetfs@.service", "packaging/xetfs-serve.service"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = codeOf(string(text))
	}
	for _, name := range topics() {
		texts[name] = codeOf(topicSource(t, name))
		for _, m := range commandIn.FindAllStringSubmatch(topicSource(t, name), -1) {
			wantMention(t, name, strings.Fields(m[1]))
		}
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
	if n < 100 {
		t.Errorf("%d command lines were found", n)
	}
}

// wantMention checks that a command within a paragraph exists, and its flags. It may lack arguments.
func wantMention(t *testing.T, where string, words []string) {
	t.Helper()
	root := newRoot()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err == nil && cmd.HasParent() {
		err = cmd.ParseFlags(rest)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("%s: xetfs %s: %v", where, strings.Join(words, " "), err)
	}
}

// TestCommandLines checks which command lines are found.
func TestCommandLines(t *testing.T) {
	tests := []struct{ in, want string }{
		{"    xetfs ls a && xetfs cat b | wc", "ls a; cat b"},
		{"    A=b C='d' xetfs ls \\\n      a >f", "ls a"},
		{"    podman run -v /a:/a image xetfs \\\n      mount a /b", "mount a /b"},
		{"    podman run -v /a:/a xetfs ls a", "ls a"},
		{"    trap 'xetfs umount \"$dir\"' EXIT", "umount $dir"},
		{"      \"host:xetfs mount a b\" image", "mount a b"},
		{"    dir=$(xetfs ls a)", "ls a"},
		{"ExecStart=/usr/bin/xetfs mount -- ${A} b", "mount -- ${A} b"},
		{"    xetfs ls a   shows a", "ls a"},
		{"    # xetfs prolog", ""},
		{"    /srv/store /mnt xetfs ro,nofail 0 0", ""},
		{"    xetfs-mount", ""},
	}
	for _, tt := range tests {
		var got []string
		for _, words := range commandLines(tt.in) {
			got = append(got, strings.Join(words, " "))
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%q has the commands %q, want %q", tt.in, got, tt.want)
		}
	}
}

var (
	continued = regexp.MustCompile(` *\\\n *`)
	command   = regexp.MustCompile(`(?:^|[ '"(:]|/usr/bin/)xetfs +(--[a-z]|[a-z].*)`)
	commandIn = regexp.MustCompile("`xetfs\\s([a-z][^`]*)`")
	further   = regexp.MustCompile(`&&|[|;]`)
	remark    = regexp.MustCompile(`   .*| [|>].*|  [a-z(].*|(^|\s)# .*`)
	shellWord = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
	fstabLine = regexp.MustCompile(`^ *(\S+) (/\S*) (xetfs|fuse\.xetfs) (\S+)(?: 0 0)?$`)
)

// codeOf returns the code of a Markdown text or unit.
func codeOf(text string) string {
	var lines []string
	fenced := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "    "), strings.HasPrefix(line, "ExecStart="):
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(lines, "\n")
}

// commandLines returns the words behind xetfs of each command in a text of a shell. Remarks and
// redirections are cut off.
func commandLines(text string) (lines [][]string) {
	for line := range strings.SplitSeq(continued.ReplaceAllString(text, " "), "\n") {
		if fstabLine.MatchString(line) {
			continue
		}
		for part := range strings.SplitSeq(further.ReplaceAllString(line, "\n"), "\n") {
			part = remark.ReplaceAllString(strings.TrimLeft(part, " "), "")
			if at := command.FindStringSubmatchIndex(part); at != nil {
				lines = append(lines, wordsOf(part[at[2]:], part[:at[2]]))
			}
		}
	}
	return lines
}

// wordsOf returns the words of a command. A quote or parenthesis that is open before the command
// ends it.
func wordsOf(text, before string) (words []string) {
	for _, quote := range []string{"'", `"`, "("} {
		if end := strings.NewReplacer("(", ")").Replace(quote); strings.Count(before, quote)%2 == 1 {
			text, _, _ = strings.Cut(text, end)
		}
	}
	for _, word := range shellWord.FindAllString(text, -1) {
		words = append(words, strings.Trim(word, `'"`))
	}
	return words
}

// TestTopicFstab feeds the lines of fstab in topics and README to the mount helper.
func TestTopicFstab(t *testing.T) {
	n := 0
	for _, fields := range fstabLines(t) {
		n++
		call, err := mountopts.ParseCall([]string{"/sbin/mount.xetfs", fields[0], fields[1], "-o", fields[3]}, isCommand)
		if err != nil || call == nil {
			t.Errorf("%q: %v", fields, err)
			continue
		}
		wantParsed(t, strings.Join(fields, " "), call.Args())
		cmd, err := commandAt(newRoot(), []string{"mount"})
		if err != nil {
			t.Fatal(err)
		}
		words := mountWords{options: call.Options}
		if err := words.setFlags(cmd); err != nil {
			t.Errorf("%q: %v", fields, err)
		}
	}
	if n < 6 {
		t.Errorf("%d lines were found", n)
	}
}

// fstabLines returns the fields of all lines of fstab in topics and README.
func fstabLines(t *testing.T) (lines [][]string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := codeOf(string(readme))
	for _, name := range topics() {
		text += "\n" + codeOf(topicSource(t, name))
	}
	for line := range strings.SplitSeq(text, "\n") {
		if fields := fstabLine.FindStringSubmatch(line); fields != nil {
			lines = append(lines, fields[1:])
		}
	}
	return lines
}
