package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// newLs is the command that lists files without mounting.
func newLs() *cobra.Command {
	var (
		l    listing
		bare bool
		kept cacheFlags
	)
	cmd := &cobra.Command{
		Use:   "ls SOURCE [SYMBOL[@AS_OF]] [DIR]",
		Short: "List symbols or files without mounting",
		Long: `Lists the entries that a mount of SOURCE would show. Names are sorted, one per line. A name
that is not printable is written as $'a\nb'. On a terminal this also applies to a name that a
shell would split or expand. This form is accepted by bash, xetfs ls and xetfs cat.

If SOURCE is a catalog, ls lists its symbols, or with SYMBOL the folder DIR (default: the top)
of that tree. Any other folder has no symbols: ls SOURCE [DIR].

` + asOfHelp + `

With -l a line is: mode, size in bytes, time (UTC), name; of a symbol: newest version, its
time (UTC), entries, bytes, name. On a terminal a heading precedes these lines, and sizes
have units. With -R names are paths, and folders are listed with all that is below them.

With --json there is one object: {"symbol", "version", "tindex", "path": DIR, "entries": […]} or
{"symbols": […]}. An absent or unknown value is null.

  entries   [{"path", "path_bytes", "type" (file, dir or symlink), "mode", "size", "modified",
            "hash", "sha256", "target", "uid", "gid"}]
  symbols   [{"symbol", "version", "time", "entries", "bytes", "tindex"}], with "hidden_by" if the
            tree of that symbol hides this one in mounts

The hash of the root page is tindex. A path that is no UTF-8 is encoded as base64 in
path_bytes. A year after 9999 or before 0 has a sign and at least six digits:
+010000-01-01T00:00:00Z.`,
		Example: `  xetfs ls ./store                         the symbols of a catalog
  xetfs ls -l ./store org/model            the files of the newest version
  xetfs ls -R --json ./store org/model@12 | jq '[.entries[].size] | add'
  xetfs ls ./folder by-hash                a folder of shards and xorbs`,
		Args:              arguments(1, 3),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCached(cmd, args[0], bare, &kept, func(ctx context.Context, s *stack.Source) error {
				if err := l.list(ctx, cmd.OutOrStdout(), s, args[1:]); err != nil {
					return err
				}
				if empty, err := s.IsEmpty(ctx); err == nil && empty && len(s.Bare.Damaged()) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), noShard(s.Folder)+emptyHint(s.Folder)))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&l.long, "long", "l", false, "mode, size and time too")
	cmd.Flags().BoolVarP(&l.recursive, "recursive", "R", false, "all that is below, too")
	cmd.Flags().BoolVar(&l.asJSON, "json", false, "print JSON instead of text")
	bareFlag(cmd, &bare)
	kept.addFlags(cmd, "use the disk cache in this folder (default: off)")
	return cmd
}

// A listing is one call of ls.
type listing struct {
	symbol    *string // nil: a folder that has none
	dir       string
	long      bool
	recursive bool
	asJSON    bool
	listed    map[string]bool // symbols so far
}

// list lists what the arguments behind SOURCE name.
func (l *listing) list(ctx context.Context, w io.Writer, s *stack.Source, args []string) error {
	if s.Stored != nil && len(args) == 0 {
		if l.recursive {
			return usageError{fmt.Errorf("-R lists the files of one symbol: name it; xetfs ls %s shows them all", ui.ShellWord(s.Folder))}
		}
		return l.symbols(ctx, w, s.Stored)
	}
	tree, rest, err := openTree(ctx, s, args, 1)
	if err != nil {
		return err
	}
	if s.Stored != nil {
		t, _ := parseTarget(args[0])
		l.symbol = &t.symbol
	}
	if l.dir, err = findPath(ctx, tree, strings.Join(rest, "")); err != nil {
		return err
	}
	return l.print(ctx, w, tree)
}

func (l *listing) print(ctx context.Context, w io.Writer, tree catalog.Tree) error {
	if l.asJSON {
		out := bufio.NewWriterSize(w, 64<<10)
		if err := l.printJSON(ctx, out, tree); err != nil {
			return err
		}
		return out.Flush()
	}
	lines := ui.NewLineList(w, "")
	if l.long {
		lines.Heading = fmt.Sprintf(entryFormat, "MODE", "SIZE", "MODIFIED (UTC)", "NAME")
	}
	err := l.walk(ctx, tree, func(e page.Entry) error { return lines.Line(l.line(e, lines)) })
	if err != nil {
		return err
	}
	return lines.Flush()
}

// printJSON prints the document of a listing.
func (l *listing) printJSON(ctx context.Context, w io.Writer, tree catalog.Tree) error {
	doc := ui.NewDocument(w)
	doc.Field("symbol", l.symbol)
	versionFields(doc, tree.Version())
	doc.Field("path", l.dir)
	doc.Begin("entries")
	if err := l.walk(ctx, tree, func(e page.Entry) error { doc.Element(inspect.NewEntryDoc(e)); return doc.Err }); err != nil {
		return err
	}
	doc.End()
	return doc.Close()
}

// walk calls do for every entry to be listed.
func (l *listing) walk(ctx context.Context, tree catalog.Tree, do func(page.Entry) error) error {
	e, err := tree.Lookup(ctx, l.dir)
	if err != nil {
		return absentPath(ctx, tree, l.dir, err)
	}
	if e.Type != page.Dir {
		return do(e)
	}
	entries := tree.List(ctx, l.dir, "")
	if l.recursive {
		entries = catalog.Walk(ctx, tree, l.dir)
	}
	for e, err := range entries {
		if err == nil {
			err = do(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entryFormat is the format of a line of ls -l: mode, size, time, name.
const entryFormat = "%-10s %12s %-19s %s"

// line is an entry as text.
func (l *listing) line(e page.Entry, lines *ui.LineList) string {
	name := e.Path
	if !l.recursive {
		name = path.Base(e.Path)
	}
	if !l.long {
		return lines.Name(name)
	}
	name = lines.Name(name)
	if e.Type == page.Symlink {
		name += " -> " + ui.QuoteName(e.Target)
	}
	return fmt.Sprintf(entryFormat, modeText(e), lines.Size(e.Size), e.ModTime.UTC().Format(time.DateTime), name)
}
