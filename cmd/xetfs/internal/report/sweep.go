package report

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// A SweepProgress shows the progress of a sweep or check. A terminal shows every step.
// Elsewhere it prints one line when a sweep begins to wait, which takes hours.
type SweepProgress struct {
	errOut  io.Writer
	command string
	line    *ui.Status
	noticed bool
}

// NewSweepProgress returns the progress of a command on standard error.
func NewSweepProgress(command string, errOut io.Writer) *SweepProgress {
	return &SweepProgress{errOut: errOut, command: command, line: ui.NewStatus(errOut)}
}

// Show shows the present step.
func (s *SweepProgress) Show(p sweep.Progress) {
	if !p.Waiting.IsZero() && !s.noticed {
		s.noticed = true
		s.Clear()
		fmt.Fprintln(s.errOut, ui.NoticeLine(s.command, fmt.Sprintf(
			"waiting until %s, so that no publish under way loses what it uses", p.Waiting.Local().Format(time.DateTime))))
	}
	s.line.Show(stepText(p, time.Now()))
}

// Clear removes the step from the screen until the next call of Show.
func (s *SweepProgress) Clear() { s.line.Clear() }

func stepText(p sweep.Progress, now time.Time) string {
	switch {
	case !p.Waiting.IsZero():
		left := max(0, p.Waiting.Sub(now)).Round(time.Second)
		return fmt.Sprintf("%s: until %s, %s left", p.Doing, p.Waiting.Local().Format(time.TimeOnly), left)
	case p.Total > 0:
		return fmt.Sprintf("%s: %d of %s", p.Doing, p.Done, ui.Plural(p.Total, "object"))
	}
	return fmt.Sprintf("%s: %s", p.Doing, ui.Plural(p.Done, "object"))
}

// sweptKinds are the kinds of objects that a sweep deletes.
var sweptKinds = []names.Kind{names.VersionKind, names.PageKind, names.ShardKind, names.XorbKind, names.SweepListKind, names.ReceiptKind}

// sweptStates are the states of the objects of a kind.
var sweptStates = []struct {
	name string
	of   func(sweep.Report) map[names.Kind]sweep.Counts
}{
	{"live", func(r sweep.Report) map[names.Kind]sweep.Counts { return r.Live }},
	{"young", func(r sweep.Report) map[names.Kind]sweep.Counts { return r.Young }},
	{"garbage", func(r sweep.Report) map[names.Kind]sweep.Counts { return r.Garbage }},
	{"deleted", func(r sweep.Report) map[names.Kind]sweep.Counts { return r.Deleted }},
}

// WriteSweep prints the result of a sweep.
func WriteSweep(w io.Writer, r sweep.Report, dryRun, asJSON bool) error {
	if asJSON {
		return sweepJSON(w, r, dryRun)
	}
	_, err := w.Write(sweepText(r))
	return err
}

// A countsDoc is a count of objects in JSON.
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
	doc.Field("usage", usageField(r.Usage))
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

func sweepText(r sweep.Report) []byte {
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
	if r.Usage != nil {
		fmt.Fprintln(&b, usageLine(r.Usage))
	}
	if r.Strays > 0 {
		fmt.Fprintf(&b, "%s of unfinished writes removed\n", ui.Plural(int64(r.Strays), "file"))
	}
	return b.Bytes()
}
