package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

func newSweep() *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "sweep STORE",
		Short: "Delete what nothing points to any more",
		Long: `Deletes versions, index pages, shards and xorbs that no version and no snapshot leads to.
Deleted versions and interrupted publishes leave such objects. Only objects older than the time
of grace are deleted (7 days unless the catalog says otherwise). If something that is needed
cannot be read, the sweep stops and deletes nothing.

Publishers and readers may continue during a sweep. A sweep first announces the objects that it
will delete, and waits for two windows of the catalog, two hours by default. It may be
interrupted at any time; the next sweep continues from there. With nothing to delete it does
not wait.

With --dry-run it only reports what it would delete. Shards and xorbs that xetfs pack has
stored, and that no version uses, are garbage to a sweep.

The output has a line for each kind of object: live (needed), young (not needed, but within the
time of grace), garbage, deleted. A last line counts the objects that only the time of grace
protects, also those of deleted versions, and names its end.

With --json there is one object; a KIND is version, index page, shard, xorb or sweep list:

  dry_run
  kinds           {KIND: {"live", "young", "garbage", "deleted"}}, each {"objects", "bytes"}
  waiting         {"objects", "bytes"}
  waiting_until   null if nothing waits
  strays          number of unfinished files that were removed`,
		Example: `  xetfs catalog sweep --dry-run ./store
  xetfs catalog sweep ./store`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withPublisher(cmd, args[0], func(ctx context.Context, w *stack.CatalogWriter) error {
				return runSweep(ctx, cmd, w, dryRun, asJSON)
			})
		},
	}
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

func runSweep(ctx context.Context, cmd *cobra.Command, w *stack.CatalogWriter, dryRun, asJSON bool) error {
	watch := &sweepWatch{errOut: cmd.ErrOrStderr(), command: cmd.CommandPath(), line: ui.NewStatus(cmd.ErrOrStderr())}
	report, err := sweep.Sweep(ctx, w.Store, w.Pages, sweep.Options{
		DryRun:   dryRun,
		Progress: watch.progress,
		Logger:   newNotes(cmd.ErrOrStderr(), cmd.CommandPath()),
	})
	watch.line.Clear()
	switch {
	case err != nil:
		return err
	case asJSON:
		return sweepJSON(cmd.OutOrStdout(), report, dryRun)
	}
	return sweepText(cmd.OutOrStdout(), report)
}

// A sweepWatch reports the progress of a sweep. A terminal shows every step. Elsewhere it
// prints one line when the sweep begins to wait, which takes hours.
type sweepWatch struct {
	errOut  io.Writer
	command string
	line    *ui.Status
	told    bool
}

func (s *sweepWatch) progress(p sweep.Progress) {
	if !p.Waiting.IsZero() && !s.told {
		s.told = true
		s.line.Clear()
		fmt.Fprintln(s.errOut, ui.NoticeLine(s.command, fmt.Sprintf(
			"waiting until %s, so that no publish under way loses what it uses", p.Waiting.Local().Format(time.DateTime))))
	}
	s.line.Show(progressText(p, time.Now()))
}

// sweptKinds are the kinds of objects that a sweep deletes, and what JSON calls them.
var sweptKinds = []names.Kind{names.VersionKind, names.PageKind, names.ShardKind, names.XorbKind, names.SweepListKind}

// sweptStates are what a sweep finds of each kind.
var sweptStates = []struct {
	name string
	of   func(sweep.Report) map[names.Kind]sweep.Counts
}{
	{"live", func(r sweep.Report) map[names.Kind]sweep.Counts { return r.Live }},
	{"young", func(r sweep.Report) map[names.Kind]sweep.Counts { return r.Young }},
	{"garbage", func(r sweep.Report) map[names.Kind]sweep.Counts { return r.Garbage }},
	{"deleted", func(r sweep.Report) map[names.Kind]sweep.Counts { return r.Deleted }},
}

// A countsDoc is a count of objects in the JSON of catalog sweep. Its names are stable.
type countsDoc struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func sweepJSON(w io.Writer, r sweep.Report, dryRun bool) error {
	kinds := map[string]map[string]countsDoc{}
	for _, kind := range sweptKinds {
		kinds[kind.String()] = map[string]countsDoc{}
		for _, state := range sweptStates {
			kinds[kind.String()][state.name] = countsDoc(state.of(r)[kind])
		}
	}
	doc := ui.NewDocument(w)
	doc.Field("dry_run", dryRun)
	doc.Field("kinds", kinds)
	doc.Field("waiting", countsDoc(r.Waiting))
	doc.Field("waiting_until", waitingUntil(r))
	doc.Field("strays", r.Strays)
	return doc.Close()
}

// waitingUntil returns when the last of the waiting objects may be swept; nil: none waits.
func waitingUntil(r sweep.Report) *time.Time {
	if r.WaitingUntil.IsZero() {
		return nil
	}
	end := r.WaitingUntil.UTC()
	return &end
}

func sweepText(w io.Writer, r sweep.Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%-12s", "")
	for _, state := range sweptStates {
		fmt.Fprintf(&b, "%22s", state.name)
	}
	for _, kind := range sweptKinds {
		fmt.Fprintf(&b, "\n%-12s", kind)
		for _, state := range sweptStates {
			c := state.of(r)[kind]
			fmt.Fprintf(&b, "%22s", fmt.Sprintf("%d, %s", c.Objects, ui.HumanSize(c.Bytes)))
		}
	}
	b.WriteByte('\n')
	if r.Waiting.Objects > 0 {
		fmt.Fprintf(&b, "grace period: %s (%s) must wait, the last until %s; then sweep again\n",
			ui.Plural(r.Waiting.Objects, "object"), ui.HumanSize(r.Waiting.Bytes), r.WaitingUntil.Local().Format(time.DateTime))
	}
	if r.Strays > 0 {
		fmt.Fprintf(&b, "%s of unfinished writes removed\n", ui.Plural(int64(r.Strays), "file"))
	}
	_, err := w.Write(b.Bytes())
	return err
}
