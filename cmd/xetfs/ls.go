package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/signature"
)

// newLs returns the command that lists files without mounting.
func newLs() *cobra.Command {
	var (
		l     lsRun
		bare  bool
		cache cacheFlags
	)
	cmd := &cobra.Command{
		Use:   "ls SOURCE [SYMBOL[@AS_OF]] [DIR]",
		Short: "List symbols or files without mounting",
		Long: `Lists the entries that a mount of SOURCE would show, sorted by name, one per line. If SOURCE is a
catalog, ls lists its symbols, or with SYMBOL the folder DIR of that tree. Any other folder has no
symbols: ls SOURCE [DIR].

AS_OF selects a version of SYMBOL: a number, an age like -1, a time, a day, snap:NAME or ver:HASH.

With -l a line is: mode, size in bytes, time (UTC), name; of a symbol: newest version, its time
(UTC), entries, bytes, name. With -R names are paths, and folders are listed with all that is below
them. A name that is not printable is written as $'a\nb', which bash, ls and cat accept.`,
		Annotations: see("versions", "json"),
		Example: `  xetfs ls ./store                         the symbols of a catalog
  xetfs ls -l ./store org/model            the files of the newest version
  xetfs ls -R --json ./store org/model@12 | jq '[.entries[].size] | add'
  xetfs ls ./folder by-hash                a folder of shards and xorbs`,
		Args:              arguments(1, 3),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l.note = noticesOf(cmd)
			return withSigned(cmd, args[0], stack.Options{Bare: bare}, &cache, &l.signers, func(ctx context.Context, s *stack.Source) error {
				if err := l.list(ctx, cmd.OutOrStdout(), s, args[1:]); err != nil {
					return err
				}
				if empty, err := s.IsEmpty(ctx); err == nil && empty && len(s.Bare.Damaged()) == 0 {
					noticesOf(cmd)(stack.NoShard(s.Folder) + stack.EmptyHint(s.Folder))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&l.Long, "long", "l", false, "mode, size and time too")
	cmd.Flags().BoolVarP(&l.Recursive, "recursive", "R", false, "all that is below, too")
	cmd.Flags().BoolVar(&l.JSON, "json", false, "print JSON instead of text")
	bareFlag(cmd, &bare)
	l.signers.add(cmd)
	cache.addFlags(cmd, "use the disk cache in this folder (default: off)")
	return cmd
}

// An lsRun is one call of ls.
type lsRun struct {
	document.EntryOptions
	signers signerFlags
	note    func(text string)
}

// list lists what the arguments behind SOURCE name.
func (l *lsRun) list(ctx context.Context, w io.Writer, s *stack.Source, args []string) error {
	if hasSymbols(s) && len(args) == 0 {
		if l.Recursive {
			return usageError{fmt.Errorf("-R lists the files of one symbol: name it; xetfs ls %s shows them all", ui.ShellWord(s.Folder))}
		}
		describe, err := l.signers.describe(s.Stored)
		if err != nil {
			return err
		}
		return document.WriteSymbols(w, l.symbols(ctx, s), describe, l.Long, l.JSON)
	}
	tree, rest, err := openTree(ctx, s, args, 1)
	if err != nil {
		return err
	}
	switch {
	case s.Symbol != "":
		l.Symbol = &s.Symbol
	case s.Stored != nil:
		t, _ := parseTarget(args[0])
		l.Symbol = &t.symbol
	}
	if l.Dir, err = findPath(ctx, tree, strings.Join(rest, "")); err != nil {
		return err
	}
	l.Version = tree.Version()
	return document.WriteEntries(w, l.EntryOptions, l.entries(ctx, tree))
}

// entries yields every entry to be listed.
func (l *lsRun) entries(ctx context.Context, tree catalog.Tree) iter.Seq2[page.Entry, error] {
	e, err := tree.Lookup(ctx, l.Dir)
	switch {
	case err != nil:
		err = hint.Path(ctx, tree, l.Dir, err)
	case e.Type == page.Dir && l.Recursive:
		return catalog.Walk(ctx, tree, l.Dir)
	case e.Type == page.Dir:
		return tree.List(ctx, l.Dir, "")
	}
	return func(yield func(page.Entry, error) bool) { yield(e, err) }
}

// symbols yields the symbols that have a live version. It reads the newest version of each only
// for output that has it. A symbol without a valid signature is left out there, with a notice.
func (l *lsRun) symbols(ctx context.Context, src *stack.Source) iter.Seq2[document.Symbol, error] {
	c, versions := src.Stored, l.Long || l.JSON
	return func(yield func(document.Symbol, error) bool) {
		listed := map[string]bool{}
		for name, err := range c.Symbols(ctx) {
			s := document.Symbol{Name: name}
			if err == nil {
				listed[name] = true // before all symbols that it may hide
				s.HiddenBy, err = c.HiddenBy(ctx, name, func(other string) bool { return listed[other] })
			}
			if err == nil && versions {
				s.Version, err = src.Versions().Latest(ctx, name)
				if notLive(err) {
					continue // the list of symbols may have names without a version
				}
				if errors.As(err, new(*signature.Error)) {
					l.note(err.Error())
					continue
				}
			}
			if !yield(s, err) {
				return
			}
		}
	}
}
