package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

func newCacheVerify() *cobra.Command {
	var (
		flags  cacheFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read everything that is kept and compare it with its checksums",
		Long: `Reads everything in the disk cache, compares it with its checksums, and prints one line for
each damaged place. Damaged content is removed, and fetched again when it is needed. While
another process writes to the cache, only that process removes it, at its next read of that
place. The exit status is 6 if there is damage.

Chunks and pages are compared at every read. The kernel reads plain files directly, without
xetfs, so a read checks only their size and times. This command finds silent changes by a bad
disk at once. A mount finds them in the background, some time after an open. A missing file of
the cache is no damage, and is not reported.

` + cachePlaceHelp + `

With --json there is one object: {"faults": [{"kind", "hash", "reason"}], "entries" (how many
were read), "sound"}.`,
		Example: `  xetfs cache verify
  xetfs cache verify --json | jq .sound`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened := openedCache{share: true, log: slog.New(slog.DiscardHandler)} // what is found is in the report
			return opened.with(cmd, &flags, func(_ *stack.CacheFolder, c *stack.DiskCache) error {
				return verifyCache(cmd, c, asJSON)
			})
		},
	}
	flags.addPlace(cmd, cacheUsage)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// A keptFaultDoc is damage as cache verify --json shows it. The names are a promise.
type keptFaultDoc struct {
	Kind   string `json:"kind"`
	Hash   string `json:"hash"`
	Reason string `json:"reason"`
}

// verifyCache reads everything and prints what is damaged.
func verifyCache(cmd *cobra.Command, c *stack.DiskCache, asJSON bool) error {
	r := &keptReport{w: cmd.OutOrStdout(), bar: ui.NewProgress(cmd.ErrOrStderr(), "verify")}
	if asJSON {
		r.doc = ui.NewDocument(r.w)
		r.doc.Begin("faults")
	}
	stats := c.Stats()
	r.bar.Expect(stats.SegmentBytes + stats.WholeBytes)
	r.bar.Start()
	stop := watchReading(r.bar)
	entries, err := c.Verify(cmd.Context(), r.fault)
	stop()
	r.bar.Clear()
	if err != nil {
		return err
	}
	return r.finish(entries)
}

// A keptReport is the report of cache verify. It prints faults as they are found, and the
// counts at the end.
type keptReport struct {
	w      io.Writer
	bar    *ui.Progress // that may be on the same screen
	doc    *ui.Document // of --json; nil: text
	faults int64
	err    error // of w
}

func (r *keptReport) fault(e disk.Entry, err error) {
	r.faults++
	if r.doc != nil {
		r.doc.Element(keptFaultDoc{e.Kind, entryHash(e), err.Error()})
		return
	}
	r.bar.Clear()
	_, err = fmt.Fprintln(r.w, ui.Printable(fmt.Sprintf("%s %s: %v", e.Kind, entryHash(e), err)))
	r.err = cmp.Or(r.err, err)
}

// finish prints the counts. It returns errDamage if there were faults.
func (r *keptReport) finish(entries int) error {
	sound := r.faults == 0
	if r.doc != nil {
		r.doc.End()
		r.doc.Field("entries", entries)
		r.doc.Field("sound", sound)
		r.err = r.doc.Close()
	} else {
		verdict := "all sound"
		if !sound {
			verdict = ui.Plural(r.faults, "fault")
		}
		_, err := fmt.Fprintf(r.w, "%s: %s\n", ui.Plural(int64(entries), "entry"), verdict)
		r.err = cmp.Or(r.err, err)
	}
	if r.err == nil && !sound {
		return errDamage
	}
	return r.err
}

// watchReading moves a bar by the bytes that this process reads, until stop is called. A store
// reports only damage, no progress.
func watchReading(bar *ui.Progress) (stop func()) {
	if !bar.Visible() {
		return func() {}
	}
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for before := bytesRead(); ; {
			select {
			case <-ending:
				return
			case <-tick.C:
				now := bytesRead()
				bar.Add(now - before)
				before = now
			}
		}
	}()
	return func() { close(ending); <-ended }
}

// bytesRead is the number of bytes that this process has read from files, as the kernel counts.
func bytesRead() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if digits, ok := strings.CutPrefix(line, "rchar: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
			return n
		}
	}
	return 0
}
