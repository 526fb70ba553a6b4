package integration

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The parts of io_uring(7) that one read needs. Structures and offsets are the kernel's.
type (
	uringSQOffsets struct {
		head, tail, ringMask, ringEntries, flags, dropped, array, resv uint32
		userAddr                                                       uint64
	}
	uringCQOffsets struct {
		head, tail, ringMask, ringEntries, overflow, cqes, flags, resv uint32
		userAddr                                                       uint64
	}
	uringParams struct {
		sqEntries, cqEntries, flags, threadCPU, threadIdle, features, wqFD uint32
		resv                                                               [3]uint32
		sq                                                                 uringSQOffsets
		cq                                                                 uringCQOffsets
	}
	uringSQE struct {
		opcode, flags uint8
		prio          uint16
		fd            int32
		off, addr     uint64
		length, rw    uint32
		userData      uint64
		_             [24]byte
	}
	uringCQE struct {
		userData uint64
		res      int32
		flags    uint32
	}
)

const (
	uringOpRead     = 22
	uringGetEvents  = 1
	uringSingleMmap = 1
	uringSQEs       = 0x10000000
)

// uringRead submits one read to a ring of its own and waits for it.
func uringRead(f *os.File, p []byte, off int64) (int, error) {
	var params uringParams
	ring, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if e == unix.ENOSYS || e == unix.EPERM {
		return 0, fmt.Errorf("io_uring: %w", errSkip)
	} else if e != 0 {
		return 0, e
	}
	defer unix.Close(int(ring))
	if params.features&uringSingleMmap == 0 {
		return 0, errSkip
	}
	size := max(params.sq.array+4*params.sqEntries, params.cq.cqes+16*params.cqEntries)
	rings, err := unix.Mmap(int(ring), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(rings) //nolint:errcheck // it was mapped
	entries, err := unix.Mmap(int(ring), uringSQEs, int(params.sqEntries)*64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(entries) //nolint:errcheck // it was mapped
	at := func(i uint32) *uint32 { return (*uint32)(unsafe.Pointer(&rings[i])) }

	buf := make([]byte, len(p)+1) // there is no address of nothing
	*(*uringSQE)(unsafe.Pointer(&entries[0])) = uringSQE{
		opcode: uringOpRead, fd: int32(f.Fd()), off: uint64(off),
		addr: uint64(uintptr(unsafe.Pointer(&buf[0]))), length: uint32(len(p)),
	}
	*at(params.sq.array) = 0
	atomic.StoreUint32(at(params.sq.tail), 1)
	for {
		_, _, e = unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, uringGetEvents, 0, 0)
		if e != unix.EINTR {
			break
		}
	}
	if e != 0 {
		return 0, e
	}
	if atomic.LoadUint32(at(params.cq.tail)) == 0 {
		return 0, errors.New("io_uring: nothing completed")
	}
	res := (*uringCQE)(unsafe.Pointer(&rings[params.cq.cqes])).res
	runtime.KeepAlive(buf)
	if res < 0 {
		return 0, unix.Errno(-res)
	}
	return copy(p, buf[:res]), nil
}
