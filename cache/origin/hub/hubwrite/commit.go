package hubwrite

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

// A Commit is the body of a request for a commit. It is lines of JSON, and the last one may lack
// its newline. The first line is the header:
//
//	{"key": "header", "value": {"summary": …, "description": …, "parentCommit": …}}
//	{"key": "file", "value": {"path": …, "content": …, "encoding": "base64"}}
//	{"key": "lfsFile", "value": {"path": …, "algo": "sha256", "oid": …, "size": …}}
//	{"key": "deletedFile", "value": {"path": …}}
//	{"key": "deletedFolder", "value": {"path": …}}
//	{"key": "copyFile", "value": {"path": …, "srcPath": …, "srcRevision": …}}
type Commit struct {
	Title       string
	Description string
	Parent      string // the commit that must be the newest one; "": any

	// Operations yields the operations once, in the order of the body. An error ends it. The
	// Content of an operation is valid until the next one.
	Operations iter.Seq2[Operation, error]
}

// A Kind says what an Operation does.
type Kind string

// The kinds of operations. Their values are the keys in a body.
const (
	AddFile      Kind = "file"
	AddLFS       Kind = "lfsFile"
	DeleteFile   Kind = "deletedFile"
	DeleteFolder Kind = "deletedFolder"
	CopyFile     Kind = "copyFile"
)

// An Operation changes one path. All operations of a commit refer to the tree before it.
type Operation struct {
	Kind     Kind
	Path     string   // checked by CheckPath
	Content  []byte   // of AddFile
	SHA256   [32]byte // of AddLFS
	Size     int64    // of AddLFS; -1: unknown
	Source   string   // of CopyFile: its path
	Revision string   // of Source; "": the tree before the commit
}

// Limits bound a commit. The zero value has the defaults.
type Limits struct {
	Body       int64 // bytes; 0: 512 MiB
	Line       int   // bytes of one line; 0: 4 MiB
	Operations int   // 0: 50,000
	Paths      int   // bytes of all paths; 0: 16 MiB
	Texts      int   // bytes of the header's line; 0: 64 KiB
}

func (l *Limits) fill() {
	l.Body, l.Line, l.Operations = cmp.Or(l.Body, 512<<20), cmp.Or(l.Line, 4<<20), cmp.Or(l.Operations, 50_000)
	l.Paths, l.Texts = cmp.Or(l.Paths, 16<<20), cmp.Or(l.Texts, 64<<10)
}

// refuse returns the error for a body that violates a rule.
func refuse(format string, args ...any) error {
	return &hubserve.Refusal{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
}

// tooLarge returns the error for a body beyond a limit.
func tooLarge(format string, args ...any) error {
	return &hubserve.Refusal{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf(format, args...)}
}

// Quote returns a path for the text of an error: printable ASCII, not too long.
func Quote(path string) string {
	if len(path) > 100 {
		path = path[:100]
	}
	return fmt.Sprintf("%+q", path)
}

// ReadCommit reads the header of a body. The Operations of the result read the rest.
func ReadCommit(body io.Reader, l Limits) (*Commit, error) {
	l.fill()
	lines := &lineReader{r: bufio.NewReaderSize(body, 64<<10), left: l.Body}
	line, err := lines.next(l.Texts)
	switch {
	case errors.Is(err, errLongLine):
		return nil, tooLarge("the title and description of the commit have more than %d bytes in JSON; shorten the description", l.Texts)
	case errors.Is(err, io.EOF):
		return nil, refuse("the commit is empty; its first line must be the header")
	case err != nil:
		return nil, err
	}
	var in wireLine
	if err := in.decode(line); err != nil {
		return nil, err
	}
	v := &in.Value
	switch {
	case in.Key != "header":
		return nil, refuse("the first line of a commit must be the header")
	case strings.TrimSpace(v.Summary) == "":
		return nil, refuse("the header has no summary, which is the title of the commit")
	case strings.ContainsAny(v.Summary, "\r\n\x00") || strings.ContainsRune(v.Description, 0):
		return nil, refuse("the summary must be one line, and no text may have a NUL")
	case v.ParentCommit != "" && !hub.IsCommitID(v.ParentCommit):
		return nil, refuse("the parentCommit must have 40 hex digits")
	}
	c := &Commit{Title: v.Summary, Description: v.Description, Parent: v.ParentCommit}
	c.Operations = func(yield func(Operation, error) bool) {
		o := operations{lines: lines, l: l, added: map[string]bool{}}
		for {
			op, err := o.next()
			if errors.Is(err, io.EOF) || !yield(op, err) || err != nil {
				return
			}
		}
	}
	return c, nil
}

// operations reads the lines behind the header.
type operations struct {
	lines *lineReader
	l     Limits
	count int
	bytes int             // of paths
	added map[string]bool // paths; the values say nothing
}

// next returns the next operation, or io.EOF.
func (o *operations) next() (Operation, error) {
	line, err := o.lines.next(o.l.Line)
	if errors.Is(err, errLongLine) {
		err = tooLarge("a line of the commit is longer than %d bytes; upload large files by Xet or LFS", o.l.Line)
	}
	if err != nil {
		return Operation{}, err
	}
	if o.count++; o.count > o.l.Operations {
		return Operation{}, tooLarge("a commit has at most %d operations; send several commits", o.l.Operations)
	}
	var in wireLine
	if err := in.decode(line); err != nil {
		return Operation{}, o.at(err)
	}
	op, err := in.operation()
	if err != nil {
		return Operation{}, o.at(err)
	}
	if o.bytes += len(op.Path) + len(op.Source); o.bytes > o.l.Paths {
		return Operation{}, tooLarge("the paths of a commit have at most %d bytes together; send several commits", o.l.Paths)
	}
	if adds := op.Kind != DeleteFile && op.Kind != DeleteFolder; adds {
		if o.added[op.Path] {
			return Operation{}, refuse("the path %s is in the commit twice", Quote(op.Path))
		}
		o.added[op.Path] = true
	}
	return op, nil
}

// at adds the number of the line to a refusal.
func (o *operations) at(err error) error {
	var r *hubserve.Refusal
	if errors.As(err, &r) {
		return &hubserve.Refusal{Status: r.Status, Code: r.Code, Text: fmt.Sprintf("line %d of the commit: %s", o.count+1, r.Text)}
	}
	return err
}

// A wireLine is a line of a body.
type wireLine struct {
	Key   string `json:"key"`
	Value struct {
		Summary      string `json:"summary"`
		Description  string `json:"description"`
		ParentCommit string `json:"parentCommit"`

		Path        string  `json:"path"`
		Content     *string `json:"content"`
		Encoding    string  `json:"encoding"`
		OldPath     string  `json:"oldPath"`
		Algo        string  `json:"algo"`
		OID         string  `json:"oid"`
		Size        *int64  `json:"size"`
		SrcPath     string  `json:"srcPath"`
		SrcRevision string  `json:"srcRevision"`
	} `json:"value"`
}

// decode decodes a line. A name that is not UTF-8 would lose bytes on the way, so it is refused.
func (in *wireLine) decode(line []byte) error {
	if !utf8.Valid(line) {
		return refuse("the text is not UTF-8")
	}
	if err := json.Unmarshal(line, in); err != nil {
		return refuse("the text is not a JSON object with key and value")
	}
	if isEscaped := bytes.Contains(line, []byte(`\ud`)) || bytes.Contains(line, []byte(`\uD`)); isEscaped {
		for _, s := range []string{in.Value.Path, in.Value.SrcPath, in.Value.Summary} {
			if strings.ContainsRune(s, utf8.RuneError) {
				return refuse("a name is not UTF-8; rename the file")
			}
		}
	}
	return nil
}

// operation returns the operation of a line.
func (in *wireLine) operation() (Operation, error) {
	v := &in.Value
	op := Operation{Kind: Kind(in.Key), Path: v.Path, Size: -1}
	switch {
	case in.Key == "header":
		return op, refuse("a commit has one header, at its start")
	case op.Kind == DeleteFolder:
		op.Path = strings.TrimSuffix(op.Path, "/")
	}
	if err := CheckPath(op.Path); err != nil {
		return op, err
	}
	if v.OldPath != "" {
		return op, refuse("oldPath is not supported; send copyFile and deletedFile")
	}
	var err error
	switch op.Kind {
	case AddFile:
		op.Content, err = in.content()
	case AddLFS:
		err = in.lfs(&op)
	case CopyFile:
		op.Source, op.Revision = v.SrcPath, v.SrcRevision
		err = CheckPath(op.Source)
	case DeleteFile, DeleteFolder:
	default:
		return op, refuse("unknown key %s", Quote(in.Key))
	}
	return op, err
}

// content returns the content of a file in a line.
func (in *wireLine) content() ([]byte, error) {
	v := &in.Value
	switch {
	case v.Content == nil:
		return nil, refuse("the file %s has no content", Quote(v.Path))
	case v.Encoding == "" || v.Encoding == "utf-8":
		return []byte(*v.Content), nil
	case v.Encoding != "base64":
		return nil, refuse("the encoding of a file must be base64 or utf-8")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(*v.Content)
	if err != nil {
		return nil, refuse("the content of %s is not base64", Quote(v.Path))
	}
	return b, nil
}

// lfs sets the fields of a large file in a line.
func (in *wireLine) lfs(op *Operation) error {
	v := &in.Value
	if v.Algo != "" && v.Algo != "sha256" {
		return refuse("the algo of a large file must be sha256")
	}
	if v.Size != nil {
		if op.Size = *v.Size; op.Size < 0 {
			return refuse("the size of %s is negative", Quote(v.Path))
		}
	}
	sum, ok := parseSum(v.OID)
	if !ok {
		return refuse("the oid of %s is no SHA-256, which has 64 hex digits", Quote(v.Path))
	}
	op.SHA256 = sum
	return nil
}

// parseSum parses a SHA-256 of 64 lower-case hex digits.
func parseSum(text string) (sum [32]byte, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(sum) || strings.ToLower(text) != text {
		return sum, false
	}
	return [32]byte(b), true
}

// maxName bounds a name in a path, in bytes.
const maxName = 255

// CheckPath refuses paths that no tree can have. It also refuses folders named .git: git runs
// programs that are stored there.
func CheckPath(path string) error {
	switch {
	case path == "":
		return refuse("a path is empty")
	case len(path) > hub.MaxPath:
		return refuse("a path has %d bytes, at most %d are allowed", len(path), hub.MaxPath)
	case strings.HasPrefix(path, "/"):
		return refuse("the path %s is absolute; paths begin at the root of the repository", Quote(path))
	case strings.IndexByte(path, 0) >= 0:
		return refuse("the path %s has a NUL", Quote(path))
	case path == ".versions" || strings.HasPrefix(path, ".versions/"):
		return refuse("the name .versions is taken: mounts show older versions there")
	}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "" || name == "." || name == "..":
			return refuse("the path %s has an empty name, or one of . and ..", Quote(path))
		case len(name) > maxName:
			return refuse("a name in the path %s has %d bytes, at most %d are allowed", Quote(path), len(name), maxName)
		case strings.EqualFold(name, ".git"):
			return refuse("the path %s is in a folder .git, which cannot be uploaded", Quote(path))
		}
	}
	return nil
}

// A lineReader reads lines of bounded length.
type lineReader struct {
	r    *bufio.Reader
	left int64 // bytes of the body
	buf  []byte
}

// errLongLine is the error of a line above its limit.
var errLongLine = errors.New("long line")

// next returns the next line that is not empty, without its end. It is valid until the next call.
// The error is io.EOF behind the last line.
func (lr *lineReader) next(limit int) ([]byte, error) {
	for {
		line, err := lr.line(limit)
		if line = bytes.TrimSpace(line); len(line) > 0 || err != nil {
			return line, err
		}
	}
}

// line returns the next line. io.EOF has no bytes before it.
func (lr *lineReader) line(limit int) ([]byte, error) {
	lr.buf = lr.buf[:0]
	for {
		part, err := lr.r.ReadSlice('\n')
		if lr.left -= int64(len(part)); lr.left < 0 {
			return nil, tooLarge("the commit is too large; send several commits")
		}
		if len(lr.buf)+len(part) > limit {
			return nil, errLongLine
		}
		lr.buf = append(lr.buf, part...)
		switch {
		case err == nil:
			return lr.buf, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(lr.buf) > 0:
			return lr.buf, nil
		default:
			return nil, err
		}
	}
}
