package integration

import (
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var prosePackage = flag.String("prose", "", "print the findings of one package, for example cache/disk")

const maxSentence = 24 // words

// badStarts begin a clause. A sentence begins with its subject.
var badStarts = strings.Fields("What Who Whoever Whom Of Where That How Whether")

// badWords are the words that the style rules replace. Words that also have a good meaning,
// for example "keeps" and "far", are absent.
var badWords = []string{
	"who", "whoever", "whom", "somebody", "nobody", "someone", "told", "tells", "asked of", "takes notice",
	"goes on", "stands", "lies", "laid down", "kept whole", "by itself", "so many", "for good", "what is there",
	"nothing there", "there is none", "gives out", "given out", "gives back", "hands over", "lends", "afar", "in doubt",
	"rotten", "to blame", "made up", "says whether", "came", "asks for", "asked for", "is there", "are there",
	"for ever", "knows", "near",
}

// TestProse compares the findings of each package with the allow-list.
func TestProse(t *testing.T) {
	found := map[string]int{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, "../")
		if d.IsDir() && (d.Name() == "testdata" || name[0] == '.' && name != "..") {
			return filepath.SkipDir
		}
		help := strings.HasPrefix(name, "cmd/") && slices.Contains([]string{".txt", ".md"}, filepath.Ext(name))
		if err != nil || filepath.Ext(name) != ".go" && !help {
			return err
		}
		src, err := os.ReadFile(path)
		all := prose(name, src)
		pkg := filepath.Dir(name)
		if found[pkg] += len(all); pkg == *prosePackage {
			t.Log(pkg + "\n" + strings.Join(all, "\n"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range compareProse(found, allowedProse) {
		t.Error(problem)
	}
}

// compareProse compares the number of findings of each package with its allowed number. A
// package without an entry may have none.
func compareProse(found, allowed map[string]int) (problems []string) {
	for pkg, n := range found {
		if n > allowed[pkg] {
			problems = append(problems, fmt.Sprintf("%s: %d findings, %d allowed; list them with -v -prose=%[1]s", pkg, n, allowed[pkg]))
		}
	}
	for pkg, n := range allowed {
		if found[pkg] < n {
			problems = append(problems, fmt.Sprintf("%s: %d findings, %d allowed; lower the number", pkg, found[pkg], n))
		}
	}
	slices.Sort(problems)
	return problems
}

// prose returns the findings in one file. It reads comments and, except in tests, strings. A
// file that is not Go source is one text.
func prose(name string, src []byte) (found []string) {
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(src))
	switch filepath.Ext(name) {
	case ".go":
	case ".md":
		return sentences(split(textOfMarkdown(string(src)), token.Position{Filename: name, Line: 1}))
	default:
		return sentences(split(string(src), token.Position{Filename: name, Line: 1}))
	}
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	var text []word
	for last, line := token.ILLEGAL, 0; last != token.EOF; {
		pos, tok, lit := s.Scan()
		at := fset.Position(pos)
		continued := tok == token.COMMENT && last == token.COMMENT && at.Line == line+1 ||
			tok == token.ADD && last == token.STRING || tok == token.STRING && last == token.ADD
		if !continued {
			found, text = append(found, sentences(text)...), nil
		}
		switch last = tok; {
		case tok == token.COMMENT:
			text = append(text, split(markers.ReplaceAllString(lit, ""), at)...)
			if at.Line == line { // behind code: the next line is another text
				last = token.ILLEGAL
			}
		case tok == token.STRING && !strings.HasSuffix(name, "_test.go"):
			lit, _ = strconv.Unquote(lit)
			text = append(text, split(lit, at)...)
		}
		line = at.Line + strings.Count(lit, "\n")
	}
	return found
}

// textOfMarkdown empties the lines of code and tables, and makes each item a paragraph.
func textOfMarkdown(src string) string {
	fenced := false
	lines := strings.Split(src, "\n")
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		fenced = fenced != fence
		switch item, isItem := strings.CutPrefix(line, "* "); {
		case fence || fenced || strings.HasPrefix(line, "|"):
			lines[i] = ""
		case isItem:
			lines[i] = item
			if i > 0 && lines[i-1] != "" && !strings.HasSuffix(lines[i-1], ".") {
				lines[i-1] += "."
			}
		case strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   "):
			lines[i] = line[2:]
		}
	}
	return strings.Join(lines, "\n")
}

// markers are the marks of comments, and whole directives.
var markers = regexp.MustCompile(`^//(go:|nolint).*|^// ?|^/\* ?|\*/$`)

// A word has its position. An empty word ends a paragraph.
type word struct {
	text string
	at   token.Position
}

// split returns the words of a text without code and drawings, which are indented, and
// without headings.
func split(text string, at token.Position) (words []word) {
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.ContainsAny(line[:1], " \t#") {
			line = ""
			words = append(words, word{})
		}
		for _, w := range strings.Fields(line) {
			words = append(words, word{w, at})
		}
		at.Line++
	}
	return words
}

var sentenceEnd = regexp.MustCompile(`^$|[.?!]["')\]]*$`)

// sentences returns the findings in a text.
func sentences(text []word) (found []string) {
	for len(text) > 0 {
		end := slices.IndexFunc(text, func(w word) bool { return sentenceEnd.MatchString(w.text) && w.text != "e.g." && w.text != "i.e." })
		if end < 0 {
			end = len(text) - 1
		}
		found, text = append(found, sentence(text[:end+1])...), text[end+1:]
	}
	return found
}

// punctuation is what a word has around its letters and digits.
var punctuation = regexp.MustCompile(`^[^\pL\pN%]+|[^\pL\pN]+$`)

// sentence returns the findings in one sentence.
func sentence(words []word) (found []string) {
	text := " "
	var first string
	n := 0
	for _, w := range words {
		if plain := punctuation.ReplaceAllString(w.text, ""); plain != "" {
			if n++; n == 1 {
				first = plain
			}
			text += strings.ToLower(plain) + " "
		}
	}
	at := fmt.Sprintf("%s:%d: ", words[0].at.Filename, words[0].at.Line)
	if slices.Contains(badStarts, first) {
		found = append(found, at+"a sentence begins with "+first)
	}
	if n > maxSentence {
		found = append(found, fmt.Sprintf("%sa sentence has %d words:%.40s…", at, n, text))
	}
	for _, bad := range badWords {
		if strings.Contains(text, " "+bad+" ") {
			found = append(found, at+"avoid "+bad)
		}
	}
	return found
}

func TestProseFindings(t *testing.T) {
	words := strings.Repeat("word ", maxSentence)
	tests := []struct {
		name, file, src string
		want            string
	}{
		{"good", "a.go", "// F returns the size.\nfunc F() {}", ""},
		{"start", "a.go", "\n// What is read counts.", "a.go:2: a sentence begins with What"},
		{"second start", "a.go", "// F is true. \"Where it\nis used, it counts.", "a.go:1: a sentence begins with Where"},
		{"24 words", "a.go", "// " + words + ".", ""},
		{"25 words on two lines", "a.go", "// " + words + "\n// more.", "a.go:1: a sentence has 25 words: word word word word word word word word…"},
		{"25 words in two paragraphs", "a.go", "// " + words + "\n//\n// more.", ""},
		{"25 words in two comments", "a.go", "var a int // " + words + "\n// more.", ""},
		{"words across lines", "a.go", "// The value laid\n// down (for good).", "a.go:1: avoid laid down|a.go:1: avoid for good"},
		{"part of a word", "a.go", "// The whole is outsomebody.", ""},
		{"block", "a.go", "/* nobody */", "a.go:1: avoid nobody"},
		{"code and drawings", "a.go", "// F is:\n//\n//\twho()\n//   who", ""},
		{"directive", "a.go", "//go:generate who", ""},
		{"name", "a.go", "var who = 1", ""},
		{"error", "a.go", `var err = errors.New("x: nobody reads")`, "a.go:1: avoid nobody"},
		{"help in two parts", "a.go", "var long = `Fetch it.\nWho` +\n\"ever reads\"", "a.go:2: a sentence begins with Who|a.go:2: avoid who"},
		{"string of a test", "a_test.go", `var s = "nobody"`, ""},
		{"comment of a test", "a_test.go", "// nobody", "a_test.go:1: avoid nobody"},
		{"code", "a.go", "// The bytes came.", "a.go:1: avoid came"},
		{"test", "a_test.go", "// The bytes came.", "a_test.go:1: avoid came"},
		{"topic", "a.md", "* Fetch it,\n  for good\n* What\n\n| who |\n\n    who\n```\nwho\n```", "a.md:1: avoid for good|a.md:3: a sentence begins with What"},
		{"help in a file", "a.txt", "Fetch it.\n\n  xetfs who\n\nOf all, fetch it.", "a.txt:5: a sentence begins with Of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(prose(tt.file, []byte(tt.src)), "|"); got != tt.want {
				t.Errorf("findings are %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProseAllowed(t *testing.T) {
	got := compareProse(map[string]int{"more": 3, "equal": 2, "fewer": 1, "new": 1, "clean": 0}, map[string]int{"more": 2, "equal": 2, "fewer": 2, "deleted": 1})
	want := []string{"deleted: 0 findings, 1 ", "fewer: 1 findings, 2 ", "more: 3 findings, 2 ", "new: 1 findings, 0 "}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("problems are %q, want %q", got, want)
	}
}

// allowedProse is the number of findings of each package. A number may only become smaller,
// and a new package has none.
var allowedProse = map[string]int{
	"cache/origin/origintest": 1, // test data, which a stored fixture contains
}
