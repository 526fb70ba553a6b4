package fusemount

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// passedPrefix begins a mount point that is a descriptor of this process.
const passedPrefix = "/dev/fd/"

// fuseNumber is the device number of /dev/fuse on every Linux.
var fuseNumber = unix.Mkdev(10, 229)

// PassedFD returns the descriptor N of a mount point /dev/fd/N. It is the open /dev/fuse of a mount
// that another process made. The mount needs no rights of this process.
func PassedFD(dir string) (fd int, ok bool) {
	digits, ok := strings.CutPrefix(dir, passedPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err == nil
}

// CheckPassed returns an error if fd is no open /dev/fuse. It does not name the descriptor.
func CheckPassed(fd int) error {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return errors.New("this process has no such descriptor; let the process that mounted pass it on")
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != fuseNumber {
		return errors.New("the descriptor is no open /dev/fuse; mount(2) names the right one as fd=N")
	}
	return nil
}

// openPassed returns the connection behind a passed descriptor, and closes that one. The reads of the
// server block, and no child inherits the connection.
func openPassed(dir string, fd int) (*Device, error) {
	if err := CheckPassed(fd); err != nil {
		return nil, err
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if err := unix.SetNonblock(own, false); err != nil {
		unix.Close(own)
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if fd > 2 {
		unix.Close(fd)
	}
	d := &Device{Dir: dir, FD: own, passed: true, number: connectionOf(own)}
	d.control, d.noAbort = OpenAbort(d.number)
	return d, nil
}

// connectionOf returns the device number of the mount of a connection; 0: the kernel does not tell.
func connectionOf(fd int) uint64 {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(info), "fuse_connection:")
	line, _, _ := strings.Cut(after, "\n")
	minor, err := strconv.ParseUint(strings.TrimSpace(line), 10, 32)
	if err != nil {
		return 0
	}
	return unix.Mkdev(0, uint32(minor))
}
