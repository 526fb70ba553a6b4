package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// newLs is the command that lists files without mounting.
func newLs() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:   "ls SOURCE [DIR]",
		Short: "List files without mounting",
		Long: `Lists what a mount of SOURCE would show in DIR, or at its top. Names come one per line and
sorted; control characters in them are escaped.

With -l a line is: mode, size in bytes, time (UTC), name. With -R names are paths, and
folders are listed with all that is below them. With --json there is one object:
{"path": DIR, "entries": [{"path", "type" (file, dir or symlink), "mode", "size",
"modified", "hash", "sha256"}]}; what is absent or unknown is null.`,
		Example: `  xetfs ls ./store
  xetfs ls -l ./store by-hash
  xetfs ls -R --json ./store | jq '[.entries[].size] | add'`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withSource(cmd, args[0], func(ctx context.Context, s *source) error {
				l.dir = cleanPath(strings.Join(args[1:], ""))
				return l.print(ctx, cmd.OutOrStdout(), s.catalog)
			})
		},
	}
	cmd.Flags().BoolVarP(&l.long, "long", "l", false, "mode, size and time too")
	cmd.Flags().BoolVarP(&l.recursive, "recursive", "R", false, "all that is below, too")
	cmd.Flags().BoolVar(&l.asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// withSource opens SOURCE for a command that ends by itself. Damage that is met on the
// way is noted on stderr.
func withSource(cmd *cobra.Command, folder string, do func(context.Context, *source) error) error {
	s, err := openSource(cmd.Context(), folder, sourceOptions{
		budget: divide(defaultMemory),
		log:    newNotes(cmd.ErrOrStderr(), cmd.CommandPath()),
	})
	if err != nil {
		return err
	}
	defer s.close()
	return do(cmd.Context(), s)
}

// cleanPath is a path as the catalog spells it: "by-hash/x", "" for the top.
func cleanPath(p string) string {
	return strings.TrimPrefix(path.Clean("/"+p), "/")
}

// A listing is one call of ls.
type listing struct {
	dir       string
	long      bool
	recursive bool
	asJSON    bool
}

// An entryDoc is an entry as ls --json shows it. The names are a promise.
type entryDoc struct {
	Path     string      `json:"path"` // from the top
	Type     string      `json:"type"` // "file", "dir" or "symlink"
	Mode     string      `json:"mode"` // octal: "0444"
	Size     *int64      `json:"size"`
	Modified time.Time   `json:"modified"`
	Hash     *codec.Hash `json:"hash"`
	SHA256   *string     `json:"sha256"`
}

func (l *listing) print(ctx context.Context, w io.Writer, c catalog.Catalog) error {
	tree, err := c.Open(ctx, "", names.AsOf{})
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	if l.asJSON {
		doc := newDocument(out)
		doc.field("path", l.dir)
		doc.begin("entries")
		if err := l.walk(ctx, tree, func(e page.Entry) error { doc.element(newEntryDoc(e)); return doc.err }); err != nil {
			return err
		}
		doc.end()
		err = doc.close()
	} else {
		err = l.walk(ctx, tree, func(e page.Entry) error {
			_, err := fmt.Fprintln(out, l.line(e))
			return err
		})
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// walk calls do for every entry to be listed.
func (l *listing) walk(ctx context.Context, tree catalog.Tree, do func(page.Entry) error) error {
	e, err := tree.Lookup(ctx, l.dir)
	if err != nil {
		return absent(l.dir, err)
	}
	if e.Type != page.Dir {
		return do(e)
	}
	return l.walkDir(ctx, tree, l.dir, do)
}

func (l *listing) walkDir(ctx context.Context, tree catalog.Tree, dir string, do func(page.Entry) error) error {
	for e, err := range tree.List(ctx, dir, "") {
		if err != nil {
			return err
		}
		if err := do(e); err != nil {
			return err
		}
		if l.recursive && e.Type == page.Dir {
			if err := l.walkDir(ctx, tree, e.Path, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// absent is the error of a path that the tree does not have.
func absent(path string, err error) error {
	return fmt.Errorf("%s: %w; xetfs ls shows what is there", path, reason(err))
}

// line is an entry as text.
func (l *listing) line(e page.Entry) string {
	name := e.Path
	if !l.recursive {
		name = path.Base(e.Path)
	}
	if !l.long {
		return printable(name)
	}
	mode := iofs.FileMode(e.Mode & 0o777)
	switch e.Type {
	case page.Dir:
		mode |= iofs.ModeDir
	case page.Symlink:
		mode |= iofs.ModeSymlink
	}
	return fmt.Sprintf("%s %12d %s %s", mode, e.Size, e.ModTime.UTC().Format("2006-01-02 15:04:05"), printable(name))
}

func newEntryDoc(e page.Entry) entryDoc {
	doc := entryDoc{Path: e.Path, Mode: fmt.Sprintf("%04o", e.Mode&0o7777), Modified: e.ModTime.UTC()}
	switch e.Type {
	case page.Dir:
		doc.Type = "dir"
	case page.Symlink:
		doc.Type = "symlink"
	default:
		doc.Type, doc.Size, doc.Hash = "file", &e.Size, &e.ID.File
	}
	if e.SHA256 != nil {
		doc.SHA256 = plainHex(*e.SHA256)
	}
	return doc
}
