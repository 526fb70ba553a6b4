package status

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs"
)

// WriteJSON writes the list as one JSON object in one line.
func WriteJSON(w io.Writer, mounts []Mount) error {
	docs := make([]mountDoc, len(mounts))
	for i, m := range mounts {
		docs[i].Mount = m
		if m.Error != "" {
			docs[i].Error = &m.Error
		}
	}
	return json.NewEncoder(w).Encode(map[string][]mountDoc{"mounts": docs})
}

// A mountDoc is a Mount for users. An absent error is null.
type mountDoc struct {
	Mount
	Error *string `json:"error"`
}

// WriteTable writes one line for each mount. before has the figures of an earlier list, for the
// rate; it may be empty.
func WriteTable(w io.Writer, mounts, before []Mount) error {
	if len(mounts) == 0 {
		_, err := fmt.Fprintln(w, "no xetfs mount")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MOUNTPOINT\tSHOWN\tREAD\tRATE\tLOCAL\tORIGIN\tCACHE\tSTATE")
	for i := range mounts {
		m := &mounts[i]
		fmt.Fprintf(table, "%s\t%s\n", ui.Printable(m.Dir), strings.Join(m.cells(before), "\t"))
	}
	return table.Flush()
}

// cells returns the columns after the first.
func (m *Mount) cells(before []Mount) []string {
	if m.State != StateOK {
		return []string{"", "", "", "", "", "", m.problem()}
	}
	s := &m.Stats
	cache := "none"
	if s.Disk != nil {
		cache = ui.HumanSize(s.Disk.Bytes)
	}
	state := StateOK
	switch {
	case s.Origin.Failing:
		state = "origin fails: " + ui.Printable(s.Origin.LastError)
	case s.FollowError != "":
		state = ui.Printable(s.FollowError)
	case s.Disk != nil && s.Disk.State != "ok":
		state = "cache is " + s.Disk.State
	}
	return []string{
		shownText(s), ui.HumanSize(s.delivered()), m.rate(before), percent(s.Bytes), ui.HumanSize(s.Origin.Bytes), cache, state,
	}
}

// problem returns the state of a mount without figures.
func (m *Mount) problem() string {
	if m.State == StateSilent {
		return "does not answer"
	}
	return m.State + ": " + ui.Printable(m.Error)
}

// shownText names the version of a mount, or counts its open symbols.
func shownText(s *Stats) string {
	switch len(s.Shown) {
	case 1:
	case fs.MaxShown:
		return fmt.Sprintf("%d or more symbols in use", fs.MaxShown)
	default:
		return ui.Plural(int64(len(s.Shown)), "symbol") + " in use"
	}
	one := s.Shown[0]
	text := one.Symbol
	if one.Version > 0 || one.Time != nil {
		text += fmt.Sprintf("@%d", one.Version)
	}
	if text == "" {
		return "files by hash"
	}
	return ui.Printable(text)
}

// delivered returns the bytes that the kernel got, for reads or pushed before a read.
func (s *Stats) delivered() int64 { return s.Files.Bytes + s.Files.PushedBytes }

// percent returns the share of bytes that did not come from the origin.
func percent(b Bytes) string {
	all := b.Memory + b.Disk + b.Catalog + b.Origin
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", (all-b.Origin)*100/all)
}

// rate returns the bytes per second since an earlier list.
func (m *Mount) rate(before []Mount) string {
	for i := range before {
		old := &before[i]
		took := m.Stats.Process.Now.Sub(old.Stats.Process.Now)
		if old.Dir == m.Dir && old.State == StateOK && old.Stats.Process.PID == m.Stats.Process.PID && took >= time.Millisecond {
			return ui.HumanSize(int64(float64(m.Stats.delivered()-old.Stats.delivered())/took.Seconds())) + "/s"
		}
	}
	return "-"
}
