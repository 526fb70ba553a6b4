package daemon

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// ExecInNamespace replaces this process by the same program in another mount namespace, which a
// file like /proc/PID/ns/mnt names. The paths in argv are those of that namespace. It returns only
// errors.
func ExecInNamespace(namespace string, argv, environment []string) error {
	runtime.LockOSThread() // a namespace belongs to one thread, which becomes the new program
	file, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", namespace, err)
	}
	defer unix.Close(file)
	// A thread that shares its working directory with others cannot change its namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("%s: %w", namespace, err)
	}
	if err := unix.Setns(file, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("%s: the mount namespace cannot be entered: %w", namespace, err)
	}
	return fmt.Errorf("%s: /proc/self/exe: %w", namespace, syscall.Exec("/proc/self/exe", argv, environment))
}
