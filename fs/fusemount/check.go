package fusemount

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fuseDevice is the device by which a process serves a FUSE file system.
const fuseDevice = "/dev/fuse"

// Check returns an error if this process cannot mount. allowOther also requires that an
// ordinary user may mount for other users.
func Check(allowOther bool) error {
	fd, err := openFuse()
	if err != nil {
		return err
	}
	unix.Close(fd)
	if unix.Geteuid() == 0 {
		return nil
	}
	if _, err := findHelper(); err != nil {
		return err
	}
	if allowOther && !userAllowOther("/etc/fuse.conf") {
		return errors.New("--allow-other is for root, unless /etc/fuse.conf has the line user_allow_other")
	}
	return nil
}

// openFuse opens /dev/fuse. No child inherits the descriptor.
func openFuse() (int, error) {
	fd, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return -1, errors.New("there is no /dev/fuse; load the kernel module (modprobe fuse), or give it to the container (--device /dev/fuse)")
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return -1, fmt.Errorf("the kernel does not know FUSE (/dev/fuse: %w); load the module: modprobe fuse", err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return -1, fmt.Errorf("/dev/fuse: %w; this user or container may not use FUSE: chmod 666 /dev/fuse, or run as root", err)
	case err != nil:
		return -1, fmt.Errorf("/dev/fuse: %w", err)
	}
	return fd, nil
}

// userAllowOther reports whether the administrator allows mounts for other users.
func userAllowOther(conf string) bool {
	f, err := os.Open(conf)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "user_allow_other" {
			return true
		}
	}
	return false
}
