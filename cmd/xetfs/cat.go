package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// newCat returns the command that writes a file out without mounting.
func newCat() *cobra.Command {
	part := newOptional("START-END", "0-", parseByteRange)
	var (
		bare, strict bool
		cache        cacheFlags
		signers      signerFlags
	)
	cmd := &cobra.Command{
		Use:   "cat SOURCE [SYMBOL[@AS_OF]] PATH",
		Short: "Write a file to standard output without mounting",
		Long: `Writes the file that a mount of SOURCE would show at PATH to standard output. If SOURCE is a
catalog, PATH is in the tree of SYMBOL; any other folder has no symbols. A link is not followed.

AS_OF selects a version of SYMBOL: a number, an age like -1, a time, a day, snap:NAME or ver:HASH.

A whole file is checked against its hash and its SHA-256 as it is written. If the check fails, the
command fails, and has written only bytes that passed their checks. A range is checked against the
hashes of its chunks. An hf:// SOURCE proves a file only as a whole, see xetfs help promises.`,
		Annotations: see("versions", "promises"),
		Example: `  xetfs cat ./store org/model config.json
  xetfs cat ./store org/model@2026-03-01 config.json
  xetfs cat ./folder by-hash/3fa1… > file
  xetfs cat --range 0-100 ./folder by-hash/3fa1…     the first 100 bytes
  xetfs cat --range 100- ./folder by-hash/3fa1…      all but these`,
		Args:              arguments(2, 3),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ui.UntilCanceled(cmd.Context(), func() error { // the reader of a pipe may never read
				return withSigned(cmd, args[0], stack.Options{Bare: bare, Strict: strict}, &cache, &signers, func(ctx context.Context, s *stack.Source) error {
					return catArguments(ctx, cmd.OutOrStdout(), s, args[1:], part.value)
				})
			})
		},
	}
	bareFlag(cmd, &bare)
	strictFlag(cmd, &strict)
	signers.add(cmd)
	cache.addFlags(cmd, "use the disk cache in this folder (default: off)")
	cmd.Flags().Var(&part, "range", "only the bytes from START on and before END: START-END, or START- up to the end")
	return cmd
}

// catArguments writes a part of the file that the arguments behind SOURCE name to w.
func catArguments(ctx context.Context, w io.Writer, s *stack.Source, args []string, part byteRange) error {
	if hasSymbols(s) && len(args) < 2 {
		return usageError{fmt.Errorf("%s is a catalog: name a SYMBOL and a PATH", s.Folder)}
	}
	tree, rest, err := openTree(ctx, s, args, 1)
	if err != nil {
		return err
	}
	path, err := findPath(ctx, tree, rest[0])
	if err != nil {
		return err
	}
	return cat(ctx, w, s, tree, path, part)
}

// cat writes a part of the file at path to w.
func cat(ctx context.Context, w io.Writer, s *stack.Source, tree catalog.Tree, path string, part byteRange) error {
	e, err := tree.Lookup(ctx, path)
	switch {
	case err != nil:
		return hint.Path(ctx, tree, path, err)
	case e.Type == page.Dir:
		return fmt.Errorf("%s: is a folder; xetfs ls shows what is in it", path)
	case e.Type == page.Symlink:
		return fmt.Errorf("%s: is a link to %s; name the file itself", path, ui.QuoteName(e.Target))
	case part.start > e.Size:
		return usageError{fmt.Errorf("%s: it has %d bytes, --range begins at %d", path, e.Size, part.start)}
	case len(e.Inline) > 0:
		_, err = w.Write(e.Inline[part.start:min(part.end, e.Size)])
	default:
		err = catFile(ctx, s, w, &e, catalog.ExpectedSHA256(tree, &e), part)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// catFile writes a part of a file whose content is in the data of the store. A whole file is
// compared with sum if that is not nil.
func catFile(ctx context.Context, s *stack.Source, w io.Writer, e *page.Entry, sum *[32]byte, part byteRange) error {
	f, err := openFile(ctx, s, e)
	if err != nil {
		return err
	}
	if part.start == 0 && part.end >= f.Size() {
		_, err = io.Copy(w, f.VerifyReader(ctx, sum))
		return err
	}
	if sum != nil && !s.Reader.Proves() {
		if err := f.CheckSHA256(ctx, *sum); err != nil {
			return err
		}
	}
	return copyRange(ctx, w, f, part)
}

// openFile opens the content of a file, which must be as long as its entry says.
func openFile(ctx context.Context, s *stack.Source, e *page.Entry) (*reconstruct.File, error) {
	f, err := s.Reader.OpenSize(ctx, e.ID, e.Size)
	if err != nil {
		return nil, err
	}
	if f.Size() != e.Size {
		return nil, reconstruct.WrongSize(f.Size(), e.Size)
	}
	return f, nil
}

// copyRange writes a part of f, which may end behind it, to w.
func copyRange(ctx context.Context, w io.Writer, f *reconstruct.File, part byteRange) error {
	end := min(part.end, f.Size())
	buf := make([]byte, min(4<<20, max(0, end-part.start)))
	for off := part.start; off < end; {
		n, err := f.ReadAt(ctx, buf[:min(int64(len(buf)), end-off)], off)
		if err != nil {
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// A byteRange is the bytes start ≤ i < end of a file, as a flag.
type byteRange struct{ start, end int64 }

// parseByteRange reads START-END or START-.
func parseByteRange(text string) (byteRange, error) {
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		return byteRange{}, errors.New("it is START-END or START-")
	}
	r := byteRange{end: math.MaxInt64}
	var err error
	if r.start, err = strconv.ParseInt(from, 10, 64); err != nil || r.start < 0 {
		return r, fmt.Errorf("%q is not the number of a byte", from)
	}
	if to != "" {
		if r.end, err = strconv.ParseInt(to, 10, 64); err != nil {
			return r, fmt.Errorf("%q is not the number of a byte", to)
		}
	}
	if r.end < r.start {
		return r, errors.New("it ends before it begins")
	}
	return r, nil
}

// String is the inverse of parseByteRange; "" is the whole file.
func (r byteRange) String() string {
	switch {
	case r.end == math.MaxInt64 && r.start == 0:
		return ""
	case r.end == math.MaxInt64:
		return fmt.Sprintf("%d-", r.start)
	}
	return fmt.Sprintf("%d-%d", r.start, r.end)
}
