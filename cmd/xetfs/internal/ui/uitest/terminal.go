// Package uitest provides terminals to tests.
package uitest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// OpenTerminal returns a terminal with a number of columns, and what was written to it so far.
func OpenTerminal(t *testing.T, columns uint16) (terminal *os.File, output func() string) {
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
