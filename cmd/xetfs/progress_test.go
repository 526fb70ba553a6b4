package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A bar appears after barDelay: the first rates are guesses.
func TestBarDelay(t *testing.T) {
	terminal, output := openTerminal(t, 80)
	w := barWriter{newScreen(terminal), time.Now().Add(time.Hour)}
	w.Write([]byte("\rverify  10% [=>   ] (1/10 MiB, 1.1 TiB/s) [0s:0s]"))
	if text := output(); text != "" {
		t.Errorf("it shows %q", text)
	}
}

// Neither a bar nor the line of a status is ever longer than the terminal is wide.
func TestScreenWidth(t *testing.T) {
	for _, columns := range []uint16{20, 33, 80, 0} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			terminal, output := openTerminal(t, columns)
			p := newProgress(terminal, "publish, 1000000 entries, 123 MiB new")
			p.expect(1 << 40)
			p.start()
			w := barWriter{screen: p.screen}
			w.Write([]byte("\r" + p.fit(p.what) + "  42% [=====>     ] (420/999 GiB, 105 MiB/s) [3600h0m0s:6s]"))
			w.Write([]byte("\r        \r"))
			s := newStatus(terminal)
			s.show("pages: 1000000 of 2000000 objects, \x1b[2J and\n some more that does not fit on a line of eighty columns")
			s.clear()
			widest := int(columns)
			if columns == 0 {
				widest = usualColumns
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

// openTerminal returns a terminal that is so wide, and what was written to it so far.
func openTerminal(t *testing.T, columns uint16) (terminal *os.File, output func() string) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { control.Close() })
	fd := int(control.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { terminal.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return terminal, func() string {
		const end = "\x00"
		if _, err := terminal.WriteString(end); err != nil {
			t.Fatal(err)
		}
		var all []byte
		for !bytes.HasSuffix(all, []byte(end)) {
			b := make([]byte, 4<<10)
			n, err := control.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b[:n]...)
		}
		return strings.TrimSuffix(string(all), end)
	}
}
