package hubwrite

import (
	"encoding/base64"
	"errors"
	iofs "io/fs"
	"net/http"
	"unicode/utf8"

	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

// The modes of files: small texts are a part of the commit, all others are uploaded before it.
const (
	regular = "regular"
	large   = "lfs"
)

// Bounds of regular files in bytes. A tiny file of any kind is regular, because it becomes a part
// of its entry.
const (
	maxRegular = 64 << 10
	maxTiny    = 256
)

// A candidate is a file of a preupload request.
type candidate struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Sample string `json:"sample"` // the first 512 bytes in base64
}

// A mode is the answer for a candidate. OID names the present content, in the form that
// the client compares: the SHA-256 of a large file, git's name of a regular one.
type mode struct {
	Path   string  `json:"path"`
	Mode   string  `json:"uploadMode"`
	Ignore bool    `json:"shouldIgnore"`
	OID    *string `json:"oid"`
}

// servePreupload sends the modes of files.
func (h *handler) servePreupload(w http.ResponseWriter, r *http.Request, t hubserve.Target) error {
	var in struct {
		Files     list[candidate] `json:"files"`
		GitIgnore *string         `json:"gitIgnore"`
	}
	if err := h.readList(w, r, &in); err != nil {
		return err
	}
	head, err := h.o.Repos.Head(r.Context(), t.Repo)
	if err != nil {
		return err
	}
	ignored, err := h.o.Repos.Ignores(r.Context(), head, in.GitIgnore)
	if err != nil {
		return err
	}
	modes := make([]mode, 0, len(in.Files))
	for _, c := range in.Files {
		if err := CheckPath(c.Path); err != nil {
			return err
		}
		f, err := head.Lookup(r.Context(), c.Path)
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
		m := c.mode(&f, err == nil && !f.IsDir)
		m.Ignore = ignored(c.Path)
		modes = append(modes, m)
	}
	w.Header().Set("X-Repo-Commit", head.ID())
	return hubserve.SendJSON(w, r, http.StatusOK, map[string]any{"files": modes, "commitOid": head.ID()})
}

// mode returns the mode of a file. A file keeps the kind of the one that it replaces, so that the
// client can compare the two.
func (c *candidate) mode(old *hubserve.File, exists bool) mode {
	m := mode{Path: c.Path, Mode: large}
	oldSum, oldIsLarge := old.LFS()
	switch isSmall := c.Size <= maxTiny || c.Size <= maxRegular && c.isText(); {
	case c.Size > 0 && exists && oldIsLarge && old.Size > maxTiny:
		m.OID = &oldSum
	case isSmall:
		m.Mode = regular
		if exists && !oldIsLarge {
			oid := old.OID()
			m.OID = &oid
		}
	}
	return m
}

// isText reports whether the sample has the look of a text.
func (c *candidate) isText() bool {
	b, err := base64.StdEncoding.DecodeString(c.Sample)
	if err != nil {
		return false
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == 0 || r == utf8.RuneError && (n > 1 || utf8.FullRune(b)) {
			return false
		}
		if r == utf8.RuneError { // the sample ends within a character
			return true
		}
		b = b[n:]
	}
	return true
}
