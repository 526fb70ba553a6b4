package ui

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui/uitest"
)

// A bar appears after barDelay: the first rates are guesses.
func TestBarDelay(t *testing.T) {
	terminal, output := uitest.OpenTerminal(t, 80)
	w := barWriter{NewScreen(terminal), time.Now().Add(time.Hour)}
	w.Write([]byte("\rverify  10% [=>   ] (1/10 MiB, 1.1 TiB/s) [0s:0s]"))
	if text := output(); text != "" {
		t.Errorf("it shows %q", text)
	}
}

// Neither a bar nor the line of a status is ever longer than the terminal is wide.
func TestScreenWidth(t *testing.T) {
	for _, columns := range []uint16{20, 33, 80, 0} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			terminal, output := uitest.OpenTerminal(t, columns)
			p := NewProgress(terminal, "xetfs publish", "publish, 1000000 entries, 123 MiB new", ProgressAuto)
			p.Expect(1 << 40)
			p.Start()
			w := barWriter{screen: p.screen}
			w.Write([]byte("\r" + p.fit(p.what) + "  42% [=====>     ] (420/999 GiB, 105 MiB/s) [3600h0m0s:6s]"))
			w.Write([]byte("\r        \r"))
			s := NewStatus(terminal)
			s.Show("pages: 1000000 of 2000000 objects, \x1b[2J and\n some more that does not fit on a line of eighty columns")
			s.Clear()
			widest := int(columns)
			if columns == 0 {
				widest = defaultColumns
			}
			text := output()
			for line := range strings.SplitSeq(text, "\r\x1b[K") {
				if len(line) >= widest {
					t.Errorf("%d columns: %q", len(line), line)
				}
			}
			if !strings.Contains(text, "publish, ") || !strings.Contains(text, "42%") || !strings.Contains(text, "pages: 1") || (columns < 80 && strings.Contains(text, "/s")) {
				t.Errorf("it shows %q", text)
			}
			if strings.Contains(text, "\n") {
				t.Errorf("it has lines: %q", text)
			}
		})
	}
}

// Without a terminal, progress is a line from time to time. The explicit forms have one at the
// start, with the total.
func TestProgressLines(t *testing.T) {
	tests := []struct {
		name string
		mode ProgressMode
		want []string
	}{
		{"auto", ProgressAuto, []string{"xetfs get: 3.00 MiB of 4.00 MiB, 75 %, 1.00 MiB/s"}},
		{"lines", ProgressLines, []string{"xetfs get: 0 bytes of 4.00 MiB, 0 %", "xetfs get: 3.00 MiB of 4.00 MiB, 75 %, 1.00 MiB/s"}},
		{"json", ProgressJSON, []string{
			`{"command":"xetfs get","done_bytes":0,"total_bytes":4194304,"seconds":0}`,
			`{"command":"xetfs get","done_bytes":3145728,"total_bytes":4194304,"seconds":3}`,
		}},
		{"none", ProgressNone, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				p := NewProgress(&out, "xetfs get", "get", tt.mode)
				if p.lines != nil {
					p.lines.pause = 3 * time.Second
				}
				p.Expect(4 << 20)
				p.Start()
				for range 3 {
					time.Sleep(time.Second)
					p.Add(1 << 20)
				}
				p.Clear()
				var want string
				for _, line := range tt.want {
					want += line + "\n"
				}
				if out.String() != want {
					t.Errorf("it prints\n%s, want\n%s", out.String(), want)
				}
			})
		})
	}
}
