package hubserve

import (
	"crypto/sha1" //nolint:gosec // git's names
	"encoding/hex"
	"fmt"
	"time"
)

// A treeEntry is a file or folder in the answers of tree and paths-info.
type treeEntry struct {
	Type       string      `json:"type"` // file or directory
	OID        string      `json:"oid"`  // git's name, 40 hex digits
	Size       int64       `json:"size"`
	Path       string      `json:"path"`
	LFS        *lfsInfo    `json:"lfs,omitempty"`
	XetHash    string      `json:"xetHash,omitempty"`
	LastCommit *lastCommit `json:"lastCommit,omitempty"` // with expand
}

// An lfsInfo is the pointer of a large file.
type lfsInfo struct {
	OID         string `json:"oid"`  // SHA-256
	Size        int64  `json:"size"` // of the content
	PointerSize int64  `json:"pointerSize"`
}

// A lastCommit is a commit in a treeEntry.
type lastCommit struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Date  string `json:"date"`
}

// A repoInfo is the answer of a repository, without its files.
type repoInfo struct {
	MongoID      string   `json:"_id"`
	ID           string   `json:"id"`
	ModelID      string   `json:"modelId,omitempty"` // models
	Author       string   `json:"author,omitempty"`
	SHA          string   `json:"sha"`
	LastModified string   `json:"lastModified"`
	CreatedAt    string   `json:"createdAt"`
	Private      bool     `json:"private"`
	Gated        bool     `json:"gated"`
	Disabled     bool     `json:"disabled"`
	Downloads    int64    `json:"downloads"`
	Likes        int64    `json:"likes"`
	Tags         []string `json:"tags"`
}

// A sibling is a file in the answer of a repository.
type sibling struct {
	Name string   `json:"rfilename"`
	Size *int64   `json:"size,omitempty"`   // with blobs
	OID  string   `json:"blobId,omitempty"` // with blobs
	LFS  *blobLFS `json:"lfs,omitempty"`    // with blobs
}

// A blobLFS is the pointer of a large file in a sibling.
type blobLFS struct {
	SHA256      string `json:"sha256"`
	Size        int64  `json:"size"`
	PointerSize int64  `json:"pointerSize"`
}

// A refsInfo is the answer of refs.
type refsInfo struct {
	Branches     []refInfo `json:"branches"`
	Tags         []refInfo `json:"tags"`
	Converts     []refInfo `json:"converts"`
	PullRequests []refInfo `json:"pullRequests"`
}

// A refInfo is a branch or a tag.
type refInfo struct {
	Name         string `json:"name"`
	Ref          string `json:"ref"`
	TargetCommit string `json:"targetCommit"`
}

// A tokenInfo is the answer of xet-read-token. The same data are in headers.
type tokenInfo struct {
	AccessToken string `json:"accessToken"`
	Expires     int64  `json:"exp"` // Unix seconds
	CASURL      string `json:"casUrl"`
}

// wireTime formats a time as the Hub does.
func wireTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// lfsPointer returns the pointer of a large file; nil for other files and without a SHA-256. A file
// with a name of git's is not in LFS.
func lfsPointer(f *File) []byte {
	if f.SHA256 == nil || f.GitOID != "" || f.Size <= int64(len(f.Inline)) {
		return nil
	}
	return fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", *f.SHA256, f.Size)
}

// blobOID returns git's name of a blob.
func blobOID(content []byte) string {
	h := sha1.New() //nolint:gosec // git's names
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// OID returns git's name of a file, 40 hex digits.
func (f *File) OID() string { return f.oid("") }

// LFS returns the SHA-256 of a file that clients see as a large one.
func (f *File) LFS() (sum string, ok bool) {
	if lfsPointer(f) == nil {
		return "", false
	}
	return hex.EncodeToString(f.SHA256[:]), true
}

// oid returns git's name of a file: of its content if that is inline, or of its LFS pointer. It
// is a part of the Xet hash without a SHA-256. A folder has a name derived from its place.
func (f *File) oid(commit string) string {
	switch pointer := lfsPointer(f); {
	case f.GitOID != "":
		return f.GitOID
	case f.IsDir:
		return blobOID([]byte(commit + ":" + f.Path))
	case pointer != nil:
		return blobOID(pointer)
	case f.Size > int64(len(f.Inline)):
		return f.ID.File.String()[:40]
	}
	return blobOID(f.Inline)
}

// etag returns the tag of the content of a file, with quotes. A file in Xet has its SHA-256, as on
// the Hub, or its Xet hash if that is unknown. Other files have git's name.
func (f *File) etag() string {
	switch {
	case f.GitOID != "":
	case f.SHA256 != nil && f.Size > int64(len(f.Inline)):
		return fmt.Sprintf(`"%x"`, *f.SHA256)
	case f.InXet:
		return `"xet-` + f.ID.File.String() + `"`
	}
	return `"` + f.oid("") + `"`
}

// entry returns f as tree and paths-info show it. Without a CAS API it has no Xet hash.
func (f *File) entry(c Commit, expand, hasXet bool) treeEntry {
	e := treeEntry{Type: "file", OID: f.oid(c.ID()), Size: f.Size, Path: f.Path}
	if f.IsDir {
		e.Type = "directory"
	}
	if p := lfsPointer(f); p != nil {
		e.LFS = &lfsInfo{OID: hex.EncodeToString(f.SHA256[:]), Size: f.Size, PointerSize: int64(len(p))}
	}
	if f.InXet && hasXet {
		e.XetHash = f.ID.File.String()
	}
	if expand {
		e.LastCommit = &lastCommit{ID: c.ID(), Title: c.Title(), Date: wireTime(c.Time())}
	}
	return e
}

// sibling returns f as the answer of a repository shows it.
func (f *File) sibling(c Commit, blobs bool) sibling {
	s := sibling{Name: f.Path}
	if !blobs {
		return s
	}
	s.Size, s.OID = &f.Size, f.oid(c.ID())
	if p := lfsPointer(f); p != nil {
		s.LFS = &blobLFS{SHA256: hex.EncodeToString(f.SHA256[:]), Size: f.Size, PointerSize: int64(len(p))}
	}
	return s
}
