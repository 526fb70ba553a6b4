package fusemount

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The handshake is one message of the kernel, INIT, and the reply. Both have the byte order of the
// machine.
//
//	offset  size  field of INIT      offset  size  field of the reply
//	     0    40  header                  0    16  header
//	    40     4  major version          16     4  major version
//	    44     4  minor version          20     4  minor version
//	    52     4  flags                  28     4  flags
//	    56     4  flags, bits 32 to 63   48     4  flags, bits 32 to 63
//	                                     56     2  limit of a request in seconds
const (
	initFlags, initHighFlags, initSize                    = 52, 56, 60
	replyFlags, replyHighFlags, replyTimeout, replyLength = 28, 48, 56, 80

	hasHighFlags   = 1 << 30 // FUSE_INIT_EXT, of the flags
	requestTimeout = 1 << 10 // FUSE_REQUEST_TIMEOUT, of the high flags; protocol 7.43, Linux 6.15
)

// minRead is the shortest read that the kernel accepts (FUSE_MIN_READ_BUFFER).
const minRead = 8 << 10

// Handshake calls server, which agrees with the kernel on the protocol through the descriptor fd. The
// server keeps fd and closes it. After Handshake fd is the connection, as is d.FD.
//
// Handshake adds a limit to the reply of the server, in seconds up to 18 hours. The kernel aborts a
// connection with an older request. It checks that every 15 s, also when the server is stopped or
// killed. limited is false if the kernel has no such limit. After an error the connection is closed.
//
// go-fuse cannot request this limit, so it talks to a socket at first.
func (d *Device) Handshake(limit time.Duration, server func(fd int) error) (limited bool, err error) {
	connection := d.FD
	defer unix.Close(connection)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("socket for the handshake: %w", err)
	}
	defer unix.Close(pair[0])
	message, err := pass(connection, pair[0], nil)
	if err != nil {
		unix.Close(pair[1])
		return false, err
	}
	if err := server(pair[1]); err != nil {
		return false, err
	}
	d.FD = pair[1]
	_, err = pass(pair[0], connection, func(reply []byte) { limited = addLimit(message, reply, limit) })
	if err == nil {
		err = unix.Dup3(connection, d.FD, unix.O_CLOEXEC)
	}
	return limited, err
}

// pass reads one message of the handshake and writes it, as change leaves it.
func pass(from, to int, change func(message []byte)) (message []byte, err error) {
	message = make([]byte, minRead)
	n, err := unix.Read(from, message)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(from, message)
	}
	if err != nil {
		return nil, fmt.Errorf("handshake: read: %w", err)
	}
	message = message[:n]
	if change != nil {
		change(message)
	}
	if _, err := unix.Write(to, message); err != nil {
		return nil, fmt.Errorf("handshake: write: %w", err)
	}
	return message, nil
}

// addLimit adds a limit to the reply to INIT. It returns false if the kernel or the server has no field
// for it.
func addLimit(message, reply []byte, limit time.Duration) bool {
	order := binary.NativeEndian
	if len(message) < initSize || len(reply) < replyLength {
		return false
	}
	low, high := order.Uint32(message[initFlags:]), order.Uint32(message[initHighFlags:])
	if low&order.Uint32(reply[replyFlags:])&hasHighFlags == 0 || high&requestTimeout == 0 {
		return false
	}
	order.PutUint32(reply[replyHighFlags:], order.Uint32(reply[replyHighFlags:])|requestTimeout)
	order.PutUint16(reply[replyTimeout:], uint16(min(limit/time.Second, 1<<16-1)))
	return true
}
