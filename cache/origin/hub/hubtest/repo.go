package hubtest

import (
	"crypto/sha1" //nolint:gosec // git's hash
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// A File is a file of a commit. The zero LFS and Xet make it a git blob.
type File struct {
	Path    string
	Content []byte
	LFS     bool   // in LFS, outside Xet
	Xet     string // Xet hash; "": not in Xet
	Size    int64  // of a Xet file without Content
}

// Git returns the hash of a git blob with some content.
func Git(content []byte) string {
	h := sha1.New() //nolint:gosec // git's hash
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// size returns the bytes of the file.
func (f *File) size() int64 { return max(f.Size, int64(len(f.Content))) }

// entry returns the JSON of the file in a listing. As on the Hub, the oid of a file in LFS is
// that of its pointer.
func (f *File) entry() map[string]any {
	sum := sha256.Sum256(f.Content)
	e := map[string]any{"type": "file", "path": f.Path, "size": f.size(), "oid": Git(f.Content)}
	if f.LFS || f.Xet != "" {
		e["oid"], e["size"] = Git([]byte("pointer of "+f.Path)), 134
		e["lfs"] = map[string]any{"oid": hex.EncodeToString(sum[:]), "size": f.size(), "pointerSize": 134}
	}
	if f.Xet != "" {
		e["xetHash"], e["size"] = f.Xet, f.size()
	}
	return e
}

// A commit is one state of a repository.
type commit struct {
	id      string
	time    time.Time
	files   []File // sorted as in git
	entries []json.RawMessage
	paths   []string // of entries
}

// newCommit returns a commit with a listing: files, and the folders that they need.
func newCommit(files []File, number int, at time.Time) *commit {
	c := &commit{id: hex.EncodeToString(fmt.Appendf(nil, "commit-%013d", number)), time: at, files: files}
	dirs := map[string]bool{}
	add := func(path string, e map[string]any) {
		b, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		c.entries, c.paths = append(c.entries, b), append(c.paths, path)
	}
	for i := range files {
		for dir := path.Dir(files[i].Path); dir != "." && dir != "/" && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
			add(dir, map[string]any{"type": "directory", "path": dir, "size": 0, "oid": Git([]byte(dir))})
		}
		add(files[i].Path, files[i].entry())
	}
	return c
}

// list returns the entries below dir, or directly in it.
func (c *commit) list(dir string, recursive bool) (found []json.RawMessage) {
	for i, p := range c.paths {
		rest, ok := strings.CutPrefix(p, dir+"/")
		if dir == "" {
			rest, ok = p, true
		}
		if ok && (recursive || !strings.Contains(rest, "/")) {
			found = append(found, c.entries[i])
		}
	}
	return found
}

// file returns a file; nil: absent.
func (c *commit) file(path string) *File {
	i := slices.IndexFunc(c.files, func(f File) bool { return f.Path == path })
	if i < 0 {
		return nil
	}
	return &c.files[i]
}
