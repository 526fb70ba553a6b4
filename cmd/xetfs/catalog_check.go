package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

func newCheck() *cobra.Command {
	var data, asJSON bool
	cmd := &cobra.Command{
		Use:   "check STORE",
		Short: "Check everything that names and versions lead to",
		Long: `Walks everything that can be reached from the references and snapshots of a catalog, and checks
hashes, structure, order, folders, shards and sizes. Xorbs must exist; with --data they are
read and unpacked, too. After damage the check continues, and prints one line for each place:
the key of the object, what needs it, and what is wrong. Nothing is written. A symbol whose
name continues that of another, which hides it in mounts, is named, too, and no damage.

The exit status is 0 if all is well, and 6 if something is damaged. It is 4 if nothing is
damaged but something is missing or cannot be read.

With --json there is one object; an unknown value is null:

  findings     [{"key", "symbol", "version", "path", "offset", "reason", "missing"}]
  ignored      keys that are none of a catalog
  symbols, versions, snapshots, pages, entries, shards, xorbs
  damaged, missing, hidden, sound`,
		Example: `  xetfs catalog check ./store
  xetfs catalog check --data --json ./store | jq '.findings[].key'`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return check(cmd, args[0], data, asJSON)
		},
	}
	cmd.Flags().BoolVar(&data, "data", false, "read every xorb, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// check checks the catalog in a folder, which need not be sound enough to be opened.
func check(cmd *cobra.Command, folder string, data, asJSON bool) error {
	if err := stack.CheckStore(folder); err != nil {
		return err
	}
	store, err := dir.OpenReadOnly(folder)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx := cmd.Context()
	if err := stack.CheckCatalog(ctx, folder, store); err != nil {
		return err
	}
	r := &checkFindings{w: cmd.OutOrStdout(), line: ui.NewStatus(cmd.ErrOrStderr())}
	if asJSON {
		r.doc = ui.NewDocument(r.w)
		r.doc.Begin("findings")
	}
	report, err := r.run(ctx, store, data)
	r.line.Clear()
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	return r.finish(report)
}

// checkFindings is the report of check. It prints what is found at once, and the counts
// at the end.
type checkFindings struct {
	w    io.Writer
	line *ui.Status
	doc  *ui.Document // of --json; nil: text
	err  error        // of w
}

func (r *checkFindings) run(ctx context.Context, store origin.Store, data bool) (sweep.CheckReport, error) {
	return sweep.Check(ctx, store, origin.Pages(store), sweep.CheckOptions{
		Data:     data,
		Progress: func(p sweep.Progress) { r.line.Show(progressText(p, time.Now())) },
		Found:    r.found,
	})
}

// A findingDoc is a finding as catalog check --json shows it. The names are a promise.
type findingDoc struct {
	Key     *string `json:"key"`
	Symbol  *string `json:"symbol"`
	Version *uint64 `json:"version"`
	Path    *string `json:"path"`
	Offset  *int64  `json:"offset"` // in the object
	Reason  string  `json:"reason"`
	Missing bool    `json:"missing"`
	Hidden  bool    `json:"hidden,omitempty"`
}

func (r *checkFindings) found(f sweep.Finding) {
	r.line.Clear()
	if r.doc != nil {
		r.doc.Element(newFindingDoc(f))
		return
	}
	_, err := fmt.Fprintln(r.w, findingLine(f))
	r.err = cmp.Or(r.err, err)
}

// findingLine names the object, what needs it, and what is wrong.
func findingLine(f sweep.Finding) string {
	if f.Hidden {
		return ui.Printable(fmt.Sprintf("%s: hidden: %v", f.Symbol, f.Err))
	}
	var parts []string
	reason := f.Err.Error()
	if f.Key != "" {
		parts = append(parts, string(f.Key))
		for _, spelled := range []string{string(f.Key), strconv.Quote(string(f.Key))} {
			reason = strings.TrimPrefix(reason, spelled+": ")
		}
	}
	if f.Symbol != "" {
		parts = append(parts, fmt.Sprintf("%s@%d", f.Symbol, f.Version))
	}
	if f.Path != "" {
		parts = append(parts, f.Path)
	}
	return ui.Printable(strings.Join(append(parts, reason), ": "))
}

func newFindingDoc(f sweep.Finding) findingDoc {
	doc := findingDoc{Reason: f.Err.Error(), Missing: f.Missing, Hidden: f.Hidden}
	if f.Key != "" {
		key := string(f.Key)
		doc.Key = &key
	}
	if f.Symbol != "" {
		doc.Symbol, doc.Version = &f.Symbol, &f.Version
	}
	if f.Path != "" {
		doc.Path = &f.Path
	}
	var corrupt *codec.CorruptError
	if errors.As(f.Err, &corrupt) {
		doc.Offset = &corrupt.Offset
	}
	return doc
}

// finish prints the counts, and returns the error for the exit status.
func (r *checkFindings) finish(c sweep.CheckReport) error {
	if r.doc != nil {
		r.doc.End()
		for _, f := range []struct {
			name string
			n    int64
		}{
			{"symbols", c.Symbols}, {"versions", c.Versions}, {"snapshots", c.Snapshots}, {"pages", c.Pages},
			{"entries", c.Entries}, {"shards", c.Shards}, {"xorbs", c.Xorbs}, {"ignored", c.Ignored},
			{"damaged", c.Damaged}, {"missing", c.Missing}, {"hidden", c.Hidden},
		} {
			r.doc.Field(f.name, f.n)
		}
		r.doc.Field("sound", c.Damaged+c.Missing == 0)
		r.err = cmp.Or(r.err, r.doc.Close())
	} else {
		_, err := fmt.Fprintln(r.w, checkSummary(c))
		r.err = cmp.Or(r.err, err)
	}
	switch {
	case r.err != nil:
		return r.err
	case c.Damaged > 0:
		return errDamage
	case c.Missing > 0:
		return errUnreadable
	}
	return nil
}

func checkSummary(c sweep.CheckReport) string {
	verdict := "all sound"
	if c.Damaged+c.Missing > 0 {
		verdict = fmt.Sprintf("%d damaged, %d missing or unreadable", c.Damaged, c.Missing)
	}
	if c.Hidden > 0 {
		verdict += fmt.Sprintf(", %s hidden in mounts", ui.Plural(c.Hidden, "symbol"))
	}
	ignored := ""
	if c.Ignored > 0 {
		ignored = fmt.Sprintf(" (%s of something else)", ui.Plural(c.Ignored, "key"))
	}
	return fmt.Sprintf("%s, %s, %s, %s with %s, %s, %s%s: %s", ui.Plural(c.Symbols, "symbol"), ui.Plural(c.Versions, "version"),
		ui.Plural(c.Snapshots, "snapshot"), ui.Plural(c.Pages, "page"), ui.Plural(c.Entries, "entry"), ui.Plural(c.Shards, "shard"),
		ui.Plural(c.Xorbs, "xorb"), ignored, verdict)
}
