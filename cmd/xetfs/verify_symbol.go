package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/verify"
	"github.com/xetfs/xetfs/codec/names"
)

// verifySymbol checks the files of one tree of a catalog and prints what it finds.
func verifySymbol(cmd *cobra.Command, folder, symbol string, asJSON bool) error {
	t, err := parseTarget(symbol)
	if err != nil {
		return err
	}
	return withSource(cmd, folder, false, func(ctx context.Context, s *stack.Source) error {
		tree, _, err := openTree(ctx, s, []string{symbol}, 0)
		if err != nil {
			return err
		}
		bar := ui.NewProgress(cmd.ErrOrStderr(), "verify")
		report := newFindings(cmd.OutOrStdout(), bar, asJSON)
		ctx, report.stop = context.WithCancel(ctx)
		defer report.stop()
		counts := verify.Tree(ctx, tree, s.Cache, s.Reader, report, bar)
		bar.Clear()
		if err := report.machineError(); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return finishTree(report, s.Folder, t.symbol, tree.Version(), counts)
	})
}

// finishTree prints the counts of a check of one tree. It returns errDamage after faults.
func finishTree(f *findings, folder, symbol string, version names.Row, counts verify.TreeCounts) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	sound := f.counts.faults == 0
	if f.doc != nil {
		f.doc.End()
		f.doc.Field("symbol", symbol)
		document.VersionFields(f.doc, version)
		f.doc.Field("entries", counts.Entries)
		f.doc.Field("files", counts.Files)
		f.doc.Field("contents", f.counts.files)
		f.doc.Field("bytes", f.counts.bytes)
		f.doc.Field("sound", sound)
		f.err = cmp.Or(f.err, f.doc.Close())
	} else {
		f.err = cmp.Or(f.err, treeSummary(f, folder, symbol, version, counts))
	}
	switch {
	case f.err != nil:
		return f.err
	case !sound:
		return errDamage
	}
	return nil
}

func treeSummary(f *findings, folder, symbol string, version names.Row, counts verify.TreeCounts) error {
	verdict := "all sound"
	if n := f.counts.faults; n > 0 {
		verdict = ui.Plural(n, "fault")
	}
	_, err := fmt.Fprintf(f.w, "%s, %s: %s, %s, %s with %d bytes read: %s\n", ui.Printable(symbol), document.VersionName(version),
		ui.Plural(counts.Entries, "entry"), ui.Plural(counts.Files, "file"), ui.Plural(f.counts.files, "content"), f.counts.bytes, verdict)
	if err == nil && f.counts.faults > 0 && !stack.IsWeb(folder) {
		_, err = fmt.Fprintf(f.w, "to store missing or damaged content again: xetfs publish --checksum %s %s FOLDER\n", ui.ShellWord(folder), ui.ShellWord(symbol))
	}
	return err
}
