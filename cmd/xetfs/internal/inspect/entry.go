package inspect

import (
	"fmt"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// An EntryDoc is an entry as ls --json shows it. The names are a promise.
type EntryDoc struct {
	Path     string      `json:"path"`       // from the top
	Bytes    []byte      `json:"path_bytes"` // base64 of a path that is no UTF-8; else null
	Type     string      `json:"type"`       // "file", "dir" or "symlink"
	Mode     string      `json:"mode"`       // octal: "0444"
	Size     *int64      `json:"size"`
	Modified ui.FileTime `json:"modified"`
	Hash     *codec.Hash `json:"hash"`
	SHA256   *string     `json:"sha256"`
	Target   *string     `json:"target"`
	UID      *uint32     `json:"uid"`
	GID      *uint32     `json:"gid"`
}

func NewEntryDoc(e page.Entry) EntryDoc {
	doc := EntryDoc{
		Path: e.Path, Bytes: ui.OddBytes(e.Path), Type: typeOf(e),
		Mode: fmt.Sprintf("%04o", e.Mode&0o7777), Modified: ui.FileTime(e.ModTime),
	}
	switch e.Type {
	case page.Symlink:
		doc.Target = &e.Target
	case page.File:
		doc.Size = &e.Size
		if hash := e.Hash(); !hash.IsPlain() {
			doc.Hash = &hash
		}
	}
	if e.SHA256 != nil {
		doc.SHA256 = PlainHex(*e.SHA256)
	}
	if e.Owner != nil {
		doc.UID, doc.GID = &e.Owner.UID, &e.Owner.GID
	}
	return doc
}

// typeOf is what JSON calls the type of an entry.
func typeOf(e page.Entry) string {
	switch e.Type {
	case page.Dir:
		return "dir"
	case page.Symlink:
		return "symlink"
	}
	return "file"
}
