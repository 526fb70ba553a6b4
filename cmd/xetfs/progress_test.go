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

const mib = 1 << 20

func TestBarLine(t *testing.T) {
	tests := []struct {
		columns     int
		done, total int64
		took        time.Duration
		want        string
	}{
		{79, 420 * mib, 999 * mib, 4 * time.Second, "publish  42% [==========>              ] 420 MiB of 999 MiB, 105 MiB/s, 6s left"},
		{55, 420 * mib, 999 * mib, 4 * time.Second, "publish  42% [====>     ] 420 MiB of 999 MiB, 105 MiB/s"},
		{45, 420 * mib, 999 * mib, 4 * time.Second, "publish  42% [====>      ] 420 MiB of 999 MiB"},
		{30, 420 * mib, 999 * mib, 4 * time.Second, "publish  42% [======>        ]"},
		{19, 420 * mib, 999 * mib, 4 * time.Second, "publish  42%"},
		{10, 420 * mib, 999 * mib, 4 * time.Second, "publi  42%"},
		{3, 420 * mib, 999 * mib, 4 * time.Second, "  42%"},
		{60, 900 * mib, 999 * mib, 999 * time.Millisecond, "publish  90% [=======================>  ] 900 MiB of 999 MiB"},
		{60, 0, 999 * mib, time.Hour, "publish   0% [>                         ] 0 bytes of 999 MiB"},
		{60, 0, 0, time.Hour, "publish 100% [==========================] 0 bytes of 0 bytes"},
		{60, 5 * mib, 4 * mib, time.Second, "publish 100% [============] 5.00 MiB of 5.00 MiB, 5.00 MiB/s"},
	}
	for _, tt := range tests {
		if got := barLine(tt.columns, "publish", tt.done, tt.total, tt.took); got != tt.want {
			t.Errorf("%d columns: %q, want %q", tt.columns, got, tt.want)
		}
	}
	for columns := 5; columns < 200; columns++ {
		for _, took := range []time.Duration{0, time.Second, 1000 * time.Hour} {
			if got := barLine(columns, "publish, 1000000 entries, 5 bytes new", 5, 1<<50, took); len(got) > columns {
				t.Errorf("%d columns: %q", columns, got)
			}
		}
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
			p.add(3)
			p.clear()
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
			if !strings.Contains(text, "publish, ") || !strings.Contains(text, "pages: 1") || strings.Contains(text, "/s") {
				t.Errorf("it shows %q", text)
			}
			if columns >= 20 && strings.Contains(text, "\n") {
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
