package hubwrite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const header = `{"key":"header","value":{"summary":"a title","description":"more"}}` + "\n"

// file returns the line of a file.
func file(path string) string {
	b, err := json.Marshal(path)
	if err != nil {
		panic(err)
	}
	return `{"key":"file","value":{"path":` + string(b) + `,"content":"YQ==","encoding":"base64"}}` + "\n"
}

// lfs returns the line of a large file.
func lfs(path, oid string) string {
	return fmt.Sprintf(`{"key":"lfsFile","value":{"path":%q,"algo":"sha256","oid":%q,"size":3}}`+"\n", path, oid)
}

const testOID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// readAll returns the operations of a body.
func readAll(body io.Reader, l Limits) (c *Commit, ops []Operation, err error) {
	c, err = ReadCommit(body, l)
	if err != nil {
		return nil, nil, err
	}
	for op, err := range c.Operations {
		if err != nil {
			return c, ops, err
		}
		op.Content = bytes.Clone(op.Content)
		ops = append(ops, op)
	}
	return c, ops, nil
}

// A body has all kinds of operations, and its last line may lack the newline. The size of reads
// does not matter.
func TestReadCommit(t *testing.T) {
	body := header + file("a/b.txt") + "\n\r\n" + lfs("large.bin", testOID) +
		`{"key":"lfsFile","value":{"path":"copy.bin","algo":"sha256","oid":"` + testOID + `"}}` + "\r\n" +
		`{"key":"file","value":{"path":"plain","content":"é"}}` + "\n" +
		`{"key":"deletedFile","value":{"path":"old"}}` + "\n" +
		`{"key":"deletedFolder","value":{"path":"dir/"}}` + "\n" +
		`{"key":"copyFile","value":{"path":"to","srcPath":"from","srcRevision":"main"}}`
	want := "file a/b.txt \"a\" 0 -1  \n" + "lfsFile large.bin \"\" 1 3  \n" + "lfsFile copy.bin \"\" 1 -1  \n" +
		"file plain \"é\" 0 -1  \n" + "deletedFile old \"\" 0 -1  \n" + "deletedFolder dir \"\" 0 -1  \n" + "copyFile to \"\" 0 -1 from main\n"
	for _, end := range []string{"", "\n"} {
		for _, reader := range []io.Reader{strings.NewReader(body + end), iotest.OneByteReader(strings.NewReader(body + end))} {
			c, ops, err := readAll(reader, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, op := range ops {
				got += fmt.Sprintf("%s %s %q %d %d %s %s\n", op.Kind, op.Path, op.Content, op.SHA256[0], op.Size, op.Source, op.Revision)
			}
			if got != want || c.Title != "a title" || c.Description != "more" || c.Parent != "" {
				t.Errorf("%+v\n%s\nwant\n%s", c, got, want)
			}
		}
	}
}

// Each hostile body is refused with a status and a sentence, which is printable ASCII.
func TestHostileCommits(t *testing.T) {
	long := strings.Repeat("a", 300)
	small := Limits{Body: 100_000, Line: 10_000, Operations: 100, Paths: 20_000, Texts: 2000}
	tests := []struct {
		name, body string
		status     int
		contains   string
	}{
		{"nothing", "", 400, "empty"},
		{"empty lines", "\n\r\n \n", 400, "empty"},
		{"no header", file("a"), 400, "must be the header"},
		{"two headers", header + header, 400, "one header"},
		{"no title", `{"key":"header","value":{"summary":" "}}`, 400, "summary"},
		{"a title of two lines", `{"key":"header","value":{"summary":"a\nb"}}`, 400, "one line"},
		{"a long header", `{"key":"header","value":{"summary":"` + strings.Repeat("a", 3000) + `"}}`, 413, "title and description of the commit have more than 2000"},
		{"a parent that is none", `{"key":"header","value":{"summary":"a","parentCommit":"main"}}`, 400, "40 hex digits"},
		{"no JSON", header + "nonsense\n", 400, "line 2 of the commit"},
		{"half a line", header + file("a")[:30], 400, "not a JSON object"},
		{"an array", header + "[]\n", 400, "not a JSON object"},
		{"a number as path", header + `{"key":"file","value":{"path":3,"content":""}}`, 400, "not a JSON object"},
		{"deep nesting", header + strings.Repeat("[", 9000), 400, "not a JSON object"},
		{"an unknown key", header + `{"key":"rename","value":{"path":"a"}}`, 400, "unknown key"},
		{"an unknown key with a newline", header + `{"key":"a\nb","value":{"path":"a"}}`, 400, `"a\nb"`},
		{"not UTF-8", header + `{"key":"file","value":{"path":"caf` + "\xe9" + `","content":""}}`, 400, "UTF-8"},
		{"half a surrogate", header + `{"key":"file","value":{"path":"caf\udce9","content":""}}`, 400, "UTF-8"},
		{"no path", header + `{"key":"file","value":{"content":""}}`, 400, "empty"},
		{"an absolute path", header + file("/etc/passwd"), 400, "absolute"},
		{"a path upwards", header + file("../a"), 400, "empty name"},
		{"a path upwards inside", header + file("a/../../b"), 400, "empty name"},
		{"a path to itself", header + file("a/./b"), 400, "empty name"},
		{"two slashes", header + file("a//b"), 400, "empty name"},
		{"a final slash", header + file("a/"), 400, "empty name"},
		{"a NUL", header + file("a\x00b"), 400, "NUL"},
		{"a long name", header + file(long), 400, "300 bytes"},
		{"a long path", header + file(strings.Repeat("a/", 2100)+"a"), 400, "4201 bytes"},
		{"a folder of git", header + file("x/.GIT/hooks/pre-commit"), 400, ".git"},
		{"the folder of versions", header + file(".versions/1/a"), 400, ".versions"},
		{"a source upwards", header + `{"key":"copyFile","value":{"path":"a","srcPath":"../b"}}`, 400, "empty name"},
		{"a path twice", header + file("a") + lfs("a", testOID), 400, "twice"},
		{"no content", header + `{"key":"file","value":{"path":"a"}}`, 400, "no content"},
		{"invalid base64", header + `{"key":"file","value":{"path":"a","content":"YQ=","encoding":"base64"}}`, 400, "not base64"},
		{"base64 with junk", header + `{"key":"file","value":{"path":"a","content":"Y!Q=","encoding":"base64"}}`, 400, "not base64"},
		{"another encoding", header + `{"key":"file","value":{"path":"a","content":"","encoding":"gzip"}}`, 400, "encoding"},
		{"a rename", header + `{"key":"file","value":{"path":"a","oldPath":"b"}}`, 400, "oldPath"},
		{"another hash", header + `{"key":"lfsFile","value":{"path":"a","algo":"md5","oid":"` + testOID + `"}}`, 400, "sha256"},
		{"a short hash", header + lfs("a", testOID[1:]), 400, "64 hex digits"},
		{"a hash in capitals", header + lfs("a", strings.ToUpper(testOID)), 400, "64 hex digits"},
		{"a negative size", header + `{"key":"lfsFile","value":{"path":"a","oid":"` + testOID + `","size":-1}}`, 400, "negative"},
		{"a huge size", header + `{"key":"lfsFile","value":{"path":"a","oid":"` + testOID + `","size":1e30}}`, 400, "not a JSON object"},
		{"too many operations", header + strings.Repeat(`{"key":"deletedFile","value":{"path":"a"}}`+"\n", 101), 413, "at most 100 operations"},
		{"too many bytes of paths", header + manyPaths(6), 413, "at most 20000 bytes"},
		{"a long line", header + `{"key":"file","value":{"path":"a","content":"` + strings.Repeat("a", 10_000), 413, "longer than 10000"},
		{"a long body", header + strings.Repeat(" \n", 60_000), 413, "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := readAll(strings.NewReader(tt.body), small)
			var r *hubserve.Refusal
			if !errors.As(err, &r) || r.Status != tt.status || !strings.Contains(r.Text, tt.contains) {
				t.Fatalf("%v, want status %d with %q", err, tt.status, tt.contains)
			}
			if strings.ContainsFunc(r.Text, func(c rune) bool { return c < ' ' || c > '~' }) || len(r.Text) > 1000 {
				t.Errorf("the text is %q", r.Text)
			}
		})
	}
}

// manyPaths returns lines with paths of 3,800 bytes each.
func manyPaths(n int) (lines string) {
	for i := range n {
		lines += file(fmt.Sprintf("%s%d", strings.Repeat(strings.Repeat("a", 189)+"/", 20), i))
	}
	return lines
}

// A body that ends early is refused, and the text of the network error is not sent.
func TestBodyEndsEarly(t *testing.T) {
	_, _, err := readAll(io.MultiReader(strings.NewReader(header+file("a")), iotest.ErrReader(errors.New("secret"))), Limits{})
	var r *hubserve.Refusal
	if err = bodyError(err); !errors.As(err, &r) || r.Status != http.StatusBadRequest || strings.Contains(r.Text, "secret") {
		t.Errorf("%v", err)
	}
}

// FuzzReadCommit checks that no body panics, and that accepted operations obey the rules.
func FuzzReadCommit(f *testing.F) {
	f.Add([]byte(header + file("a") + lfs("b/c", testOID) + `{"key":"copyFile","value":{"path":"d","srcPath":"a"}}`))
	f.Add([]byte(header + `{"key":"deletedFolder","value":{"path":"x/"}}` + "\n" + `{"key":"deletedFile","value":{"path":"y"}}`))
	f.Add([]byte(`{"key":"header","value":{"summary":"é","parentCommit":"0123456789012345678901234567890123456789"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l := Limits{Body: 1 << 16, Line: 1 << 12, Operations: 50, Paths: 1 << 12, Texts: 1 << 10}
		c, ops, err := readAll(bytes.NewReader(body), l)
		var r *hubserve.Refusal
		if err != nil && !errors.As(err, &r) {
			t.Fatalf("an error that is no refusal: %v", err)
		}
		if c != nil && (strings.TrimSpace(c.Title) == "" || strings.ContainsAny(c.Title, "\r\n\x00")) {
			t.Errorf("title %q", c.Title)
		}
		paths, seen := 0, map[string]bool{}
		for _, op := range ops {
			if err := CheckPath(op.Path); err != nil {
				t.Errorf("%q: %v", op.Path, err)
			}
			isDelete := op.Kind == DeleteFile || op.Kind == DeleteFolder
			if !isDelete && seen[op.Path] {
				t.Errorf("%q is there twice", op.Path)
			}
			seen[op.Path] = seen[op.Path] || !isDelete
			paths += len(op.Path) + len(op.Source)
		}
		if len(ops) > l.Operations || paths > l.Paths {
			t.Errorf("%d operations with %d bytes of paths", len(ops), paths)
		}
	})
}
