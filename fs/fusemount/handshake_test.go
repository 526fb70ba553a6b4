package fusemount

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// words returns a message of size bytes with 32-bit words at offsets.
func words(size int, at map[int]uint32) []byte {
	b := make([]byte, size)
	for off, v := range at {
		binary.NativeEndian.PutUint32(b[off:], v)
	}
	return b
}

func TestAddLimit(t *testing.T) {
	const other = 1 << 5 // another flag
	reply := words(80, map[int]uint32{replyFlags: hasHighFlags | other, replyHighFlags: other})
	withLimit := words(80, map[int]uint32{replyFlags: hasHighFlags | other, replyHighFlags: other | requestTimeout, replyTimeout: 600})
	tests := []struct {
		name                 string
		message, reply, want []byte
		limited              bool
	}{
		{"Linux 6.15", words(104, map[int]uint32{initFlags: hasHighFlags, initHighFlags: requestTimeout | other}), reply, withLimit, true},
		{"no limit", words(104, map[int]uint32{initFlags: hasHighFlags, initHighFlags: other}), reply, reply, false},
		{"no high flags", words(104, map[int]uint32{initHighFlags: requestTimeout}), reply, reply, false},
		{"old kernel", words(56, map[int]uint32{initFlags: hasHighFlags}), reply, reply, false},
		{"refused", words(104, map[int]uint32{initFlags: hasHighFlags, initHighFlags: requestTimeout}), reply[:16], reply[:16], false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := slices.Clone(tt.reply)
			if limited := addLimit(tt.message, got, 10*time.Minute); limited != tt.limited || !slices.Equal(got, tt.want) {
				t.Errorf("limited = %v, reply %x, want %v, %x", limited, got, tt.limited, tt.want)
			}
		})
	}
}

// The descriptor of a server is a socket during the handshake and the connection after it. A socket
// takes the place of the kernel.
func TestHandshake(t *testing.T) {
	kernel, d := connected(t)
	message := words(104, map[int]uint32{initFlags: hasHighFlags, initHighFlags: requestTimeout})
	send(t, kernel, message)
	limited, err := d.Handshake(time.Minute, func(fd int) error {
		if got := receive(t, fd); !slices.Equal(got, message) {
			t.Errorf("the server gets %x, want %x", got, message)
		}
		send(t, fd, words(80, map[int]uint32{replyFlags: hasHighFlags}))
		return nil
	})
	if !limited || err != nil {
		t.Fatalf("Handshake = %v, %v", limited, err)
	}
	if reply := receive(t, kernel); binary.NativeEndian.Uint16(reply[replyTimeout:]) != 60 {
		t.Errorf("the kernel gets %x, want a limit of 60 s", reply)
	}
	send(t, kernel, []byte("next"))
	if got := string(receive(t, d.FD)); got != "next" {
		t.Errorf("after the handshake the server gets %q", got)
	}
	if flags, err := unix.FcntlInt(uintptr(d.FD), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 || err != nil {
		t.Errorf("a child inherits the connection: flags %#x, %v", flags, err)
	}
	unix.Close(d.FD)
	if _, err := unix.Write(kernel, []byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("the connection has another descriptor: %v", err)
	}
}

// A failed handshake closes the connection.
func TestHandshakeFails(t *testing.T) {
	kernel, d := connected(t)
	send(t, kernel, []byte("INIT"))
	refused := errors.New("refused")
	_, err := d.Handshake(time.Minute, func(fd int) error {
		unix.Close(fd)
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("Handshake = %v, want %v", err, refused)
	}
	if _, err := unix.Write(kernel, []byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("the connection is open: %v", err)
	}
}

func connected(t *testing.T) (kernel int, d *Device) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]) })
	return pair[0], &Device{FD: pair[1], control: -1}
}

func send(t *testing.T, fd int, message []byte) {
	t.Helper()
	if _, err := unix.Write(fd, message); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, fd int) []byte {
	t.Helper()
	b := make([]byte, 1024)
	n, err := unix.Read(fd, b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}
