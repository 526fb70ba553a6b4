package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/extract"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

//go:embed get.txt
var helpGet string

// getOptions are the flags of get.
type getOptions struct {
	cache   cacheFlags
	signers signerFlags
	bare    bool
	asJSON  bool
}

// newGet returns the command that copies a tree into a folder.
func newGet() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:        "get SOURCE [SYMBOL[@AS_OF]] [PATH…] FOLDER",
		SuggestFor: []string{"copy", "cp", "download", "export", "extract", "pull"},
		Short:      "Copy a tree into a folder without mounting",
		Long:       helpGet,
		Example: `  xetfs get ./store org/model ~/model
  xetfs get https://example.org/store org/model@12 config.json weights ~/model
  xetfs get hf://org/model ~/model`,
		Args:              arguments(2, 1<<20),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0], args[1:len(args)-1], args[len(args)-1])
		},
	}
	o.cache.addFlags(cmd, "use the disk cache in this folder (default: off)")
	bareFlag(cmd, &o.bare)
	o.signers.add(cmd)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
	progressFlag(cmd)
	return cmd
}

// run copies what the arguments between SOURCE and FOLDER name.
func (o *getOptions) run(cmd *cobra.Command, source string, args []string, folder string) error {
	if err := checkGetFolder(source, folder); err != nil {
		return err
	}
	return withSigned(cmd, source, stack.Options{Bare: o.bare, Count: true}, &o.cache, &o.signers, func(ctx context.Context, s *stack.Source) error {
		if err := checkHasShard(ctx, s); err != nil {
			return err
		}
		tree, paths, err := openTree(ctx, s, args, 1<<20)
		if err != nil {
			return damageIfLost(err)
		}
		result, err := copyTree(ctx, cmd, s, tree, paths, folder)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return damageIfLost(err)
		}
		return report.WriteGet(cmd.OutOrStdout(), result, o.asJSON)
	})
}

// checkGetFolder refuses a target in a local SOURCE, which is never written to.
func checkGetFolder(source, folder string) error {
	if folder == "" {
		return usageError{errors.New("an empty path is no FOLDER")}
	}
	if err := stack.CheckSource(source); err != nil || stack.IsAddress(source) {
		return err
	}
	inside, err := ingest.IsInside(existing(folder), source)
	if err == nil && inside {
		err = usageError{fmt.Errorf("%s: is in SOURCE, which is never written to; name another FOLDER", folder)}
	}
	return err
}

// copyTree copies paths of a tree into a folder, which it makes if absent.
func copyTree(ctx context.Context, cmd *cobra.Command, s *stack.Source, tree catalog.Tree, args []string, folder string) (report.GetResult, error) {
	paths, leftOut, err := selectPaths(ctx, s, tree, args)
	if err != nil {
		return report.GetResult{}, err
	}
	if err := makeFolder(folder); err != nil {
		return report.GetResult{}, err
	}
	bar := newProgress(cmd, "get")
	defer bar.Clear()
	notices := ui.NewNotices(cmd.CommandPath(), cmd.ErrOrStderr(), bar)
	if bar.Visible() {
		bar.Expect(bytesBelow(ctx, tree, paths))
		bar.Start()
	}
	started := time.Now()
	result, err := extract.Run(ctx, extract.Options{
		Tree: tree, Reader: s.Reader, Paths: paths, Folder: folder, Owners: os.Geteuid() == 0, Bar: bar,
		Failed: func(path string, err error) { notices.Note(fmt.Sprintf("%s: %v", path, err)) },
	})
	if err == nil {
		noteLost(notices, result)
	}
	return report.GetResult{Result: result, Damaged: leftOut, Fetched: s.Requests.Load().Bytes, Took: time.Since(started)}, err
}

// makeFolder is os.MkdirAll with a reason for a link without a target, which "exists".
func makeFolder(folder string) error {
	err := os.MkdirAll(folder, 0o755) //nolint:gosec // as mkdir, below the umask
	if !errors.Is(err, iofs.ErrExist) {
		return err
	}
	if _, lost := os.Stat(folder); errors.Is(lost, iofs.ErrNotExist) {
		return fmt.Errorf("%s: its link leads to a path that does not exist", folder)
	}
	return err
}

// noteLost names what the target does not have of the tree.
func noteLost(notices *ui.Notices, r extract.Result) {
	if r.Bits > 0 {
		notices.Note(fmt.Sprintf("%s without set-user and set-group bits, because the owner is not set; run it as root on a tree with owners", ui.Plural(r.Bits, "file")))
	}
	if r.Attributes > 0 {
		notices.Note(fmt.Sprintf("%s without extended attributes; the file system of FOLDER must support them", ui.Plural(r.Attributes, "entry")))
	}
}

// bytesBelow returns the size of all files at some paths, as far as they can be listed.
func bytesBelow(ctx context.Context, tree catalog.Tree, paths []string) (n int64) {
	for _, path := range paths {
		if _, all := tree.Totals(); path == "" && all > 0 {
			n += all
			continue
		}
		for e, err := range tree.All(ctx, path) {
			if err != nil {
				break
			}
			if e.Type == page.File {
				n += e.Size
			}
		}
	}
	return n
}
