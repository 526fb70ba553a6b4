package main

import (
	"fmt"
	"unicode/utf8"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/page"
)

// An entryDoc is an entry as ls --json shows it. The names are a promise.
type entryDoc struct {
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

// modeText is the type and mode of an entry as ls spells them: -rw-r--r--, drwxr-xr-x.
func modeText(e page.Entry) string {
	text := []byte("-rwxrwxrwx")
	switch e.Type {
	case page.Dir:
		text[0] = 'd'
	case page.Symlink:
		text[0] = 'l'
	}
	for i := range 9 {
		if e.Mode>>(8-i)&1 == 0 {
			text[1+i] = '-'
		}
	}
	for i, special := range []byte("sst") { // setuid, setgid, sticky
		if e.Mode>>(11-i)&1 == 0 {
			continue
		}
		at := 3 + 3*i
		if text[at] == '-' {
			special -= 'a' - 'A'
		}
		text[at] = special
	}
	return string(text)
}

func newEntryDoc(e page.Entry) entryDoc {
	doc := entryDoc{
		Path: e.Path, Bytes: oddBytes(e.Path), Type: typeOf(e),
		Mode: fmt.Sprintf("%04o", e.Mode&0o7777), Modified: ui.FileTime(e.ModTime),
	}
	switch e.Type {
	case page.Symlink:
		doc.Target = &e.Target
	case page.File:
		hash := contentHash(&e)
		doc.Size, doc.Hash = &e.Size, &hash
	}
	if e.SHA256 != nil {
		doc.SHA256 = plainHex(*e.SHA256)
	}
	if e.Owner != nil {
		doc.UID, doc.GID = &e.Owner.UID, &e.Owner.GID
	}
	return doc
}

// oddBytes are the bytes of a path that JSON cannot spell.
func oddBytes(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
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

// contentHash is the Xet hash of a file, also of one that stands in its entry: it is too
// short for more than one chunk.
func contentHash(e *page.Entry) codec.Hash {
	if len(e.Inline) == 0 {
		return e.ID.File
	}
	return merkle.File([]merkle.Leaf{{Hash: merkle.Chunk(e.Inline), Size: uint64(len(e.Inline))}})
}
