package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// pruneOptions are the flags of prune.
type pruneOptions struct {
	last           int
	since          optional[since]
	snapshots      bool
	dryRun, asJSON bool
}

// newPrune returns the command that deletes the versions that no rule keeps.
func newPrune() *cobra.Command {
	var o pruneOptions
	cmd := &cobra.Command{
		Use:   "prune STORE SYMBOL",
		Short: "Delete old versions by rules",
		Long: `Deletes, as one change, the versions of SYMBOL that no rule keeps. The rules keep the newest
versions (--keep-last), versions from a time on (--keep-since), and versions that a snapshot holds
(--keep-snapshots). The newest version stays always. --keep-last or --keep-since must be given.

T is a day like 2026-03-01 (from its first moment on, in UTC), a time or an age. A time is like
2026-03-01T12:00:00Z, and an age like 36h, 30d or 8w.

The output has a line for each version: version, time (UTC), entries, bytes. The last line counts
the versions that were deleted or, with --dry-run, would be deleted. The data stays for the time of
grace, see xetfs delete.`,
		Annotations: see("versions", "json"),
		Example: `  xetfs prune --keep-last 10 --dry-run ./store org/model
  xetfs prune --keep-last 3 --keep-since 30d --keep-snapshots ./store org/model`,
		Args:              arguments(2, 2),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rule, err := o.rule(cmd, time.Now())
			if err = cmp.Or(checkSymbol(args[1]), err); err != nil {
				return err
			}
			return withDryPublisher(cmd, args[0], o.dryRun, func(ctx context.Context, w *stack.CatalogWriter) error {
				rows, err := w.Prune(ctx, args[1], rule, o.dryRun)
				if err != nil {
					return err
				}
				return document.WritePruned(cmd.OutOrStdout(), args[1], rows, o.dryRun, o.asJSON)
			})
		},
	}
	singleWriterFlag(cmd)
	f := cmd.Flags()
	f.IntVar(&o.last, "keep-last", 0, "keep the newest `N` versions")
	o.since = newOptional("T", "", parseSince)
	f.Var(&o.since, "keep-since", "keep versions from time T on")
	f.BoolVar(&o.snapshots, "keep-snapshots", false, "keep what a snapshot holds")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "only say what would be deleted")
	f.BoolVar(&o.asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// rule returns the rule of the flags. An age counts back from now.
func (o *pruneOptions) rule(cmd *cobra.Command, now time.Time) (writer.KeepRule, error) {
	last := cmd.Flags().Changed("keep-last")
	switch {
	case !last && !o.since.given():
		return writer.KeepRule{}, usageError{errors.New("say what to keep: --keep-last N or --keep-since T")}
	case last && o.last < 1:
		return writer.KeepRule{}, usageError{fmt.Errorf("--keep-last %d: the newest version stays always, so it is 1 or more", o.last)}
	}
	return writer.KeepRule{Last: o.last, Since: o.since.value.from(now), Snapshots: o.snapshots}, nil
}

// A since is a time, or an age.
type since struct {
	at  time.Time
	age time.Duration
}

const day = 24 * time.Hour

// parseSince reads a time, a day or an age. A day is its first moment: --keep-since 2026-03-01
// keeps the versions of that day. The zero time is refused, because a KeepRule takes it for no limit.
func parseSince(text string) (since, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil && !at.IsZero() {
			return since{at: at.UTC()}, nil
		}
	}
	age, err := parseAge(text)
	if err != nil {
		return since{}, fmt.Errorf("%q is neither a day or time like 2026-03-01 nor an age like 36h, 30d or 8w", text)
	}
	return since{age: age}, nil
}

// parseAge reads a duration above zero, also in days and weeks.
func parseAge(text string) (time.Duration, error) {
	for ending, unit := range map[string]time.Duration{"d": day, "w": 7 * day} {
		digits, ok := strings.CutSuffix(text, ending)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64/int64(unit) {
			return 0, errors.New("not a number of days")
		}
		return time.Duration(n) * unit, nil
	}
	age, err := time.ParseDuration(text)
	if err == nil && age <= 0 {
		err = errors.New("not above zero")
	}
	return age, err
}

// from returns the time, or the zero time for the zero value.
func (s since) from(now time.Time) time.Time {
	if s.age > 0 {
		return now.Add(-s.age)
	}
	return s.at
}

// String is the inverse of parseSince.
func (s since) String() string {
	if s.age > 0 {
		return s.age.String()
	}
	return s.at.Format(time.RFC3339)
}
