package fusemount

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Subtype is the second part of FSType.
const Subtype = "xetfs"

// FSType is the type of an xetfs mount in the mount table.
const FSType = "fuse." + Subtype

// Options are the options of a mount. A mount is always read-only.
type Options struct {
	Source     string // in the mount table
	AllowOther bool   // users other than the mounting one may use the mount
	NoExec     bool   // no file can be executed
	MaxRead    int    // largest read that the kernel sends, in bytes
}

// Mount mounts at dir, which is absolute. Root mounts directly. Other users, and root without
// CAP_SYS_ADMIN, use fusermount3. If dir is /dev/fd/N, another process has mounted; Mount then uses
// no path and none of the options. An error does not name dir.
func Mount(dir string, o Options) (*Device, error) {
	if passed, ok := PassedFD(dir); ok {
		return openPassed(dir, passed)
	}
	fd, err := -1, error(unix.EPERM)
	if unix.Geteuid() == 0 {
		fd, err = mountDirect(dir, o)
	}
	if errors.Is(err, unix.EPERM) {
		fd, err = mountByHelper(dir, o)
	}
	if err != nil {
		return nil, err
	}
	d := &Device{Dir: dir, FD: fd}
	d.number, d.mountID = numbers(dir)
	d.control, d.noAbort = OpenAbort(d.number)
	return d, nil
}

// CheckDir returns an error if dir is no directory. It first removes a mount without a server,
// and reports that. A passed descriptor has no directory.
func CheckDir(dir string) (stale bool, err error) {
	if _, passed := PassedFD(dir); passed {
		return false, nil
	}
	if errors.Is(unix.Statfs(dir, new(unix.Statfs_t)), unix.ENOTCONN) { // stat may find attributes in the kernel
		if err := Unmount(dir, true); err != nil {
			return false, fmt.Errorf("mount point %s: the mount has no server and cannot be removed: %w", dir, err)
		}
		stale = true
	}
	var st unix.Stat_t
	err = unix.Stat(dir, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return stale, fmt.Errorf("mount point %s does not exist", dir)
	case err != nil:
		return stale, fmt.Errorf("mount point %s: %w", dir, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return stale, fmt.Errorf("mount point %s is not a directory", dir)
	}
	return stale, nil
}

// mountDirect opens /dev/fuse and calls mount(2). go-fuse does the same, but children of the
// process inherit its descriptor.
func mountDirect(dir string, o Options) (fd int, err error) {
	fd, err = openFuse()
	if err != nil {
		return -1, err
	}
	data := []string{
		fmt.Sprintf("fd=%d", fd),
		fmt.Sprintf("rootmode=%o", unix.S_IFDIR),
		fmt.Sprintf("user_id=%d", unix.Geteuid()),
		fmt.Sprintf("group_id=%d", unix.Getegid()),
		fmt.Sprintf("max_read=%d", o.MaxRead),
		"default_permissions",
	}
	if o.AllowOther {
		data = append(data, "allow_other")
	}
	flags := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV)
	if o.NoExec {
		flags |= unix.MS_NOEXEC
	}
	err = unix.Mount(o.Source, dir, FSType, flags, strings.Join(data, ","))
	if err == nil {
		return fd, nil
	}
	unix.Close(fd)
	if errors.Is(err, unix.ENODEV) {
		return -1, errors.New("the kernel has no FUSE: load its module (modprobe fuse)")
	}
	return -1, fmt.Errorf("mount(2): %w", err)
}

// mountByHelper calls fusermount3, which opens /dev/fuse and sends the descriptor through a
// socket.
func mountByHelper(dir string, o Options) (fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket for fusermount3: %w", err)
	}
	remote := os.NewFile(uintptr(pair[1]), "socket for fusermount3")
	defer unix.Close(pair[0])
	err = runHelper(remote, "-o", o.forHelper(), "--", dir)
	remote.Close()
	if err != nil {
		return -1, err
	}
	fd, err = receiveDescriptor(pair[0])
	if err != nil {
		return -1, fmt.Errorf("descriptor from fusermount3: %w", err)
	}
	return fd, nil
}

// forHelper returns the options as fusermount3 reads them.
func (o Options) forHelper() string {
	options := []string{
		"ro", "nosuid", "nodev", "default_permissions",
		"fsname=" + o.Source, "subtype=" + Subtype, fmt.Sprintf("max_read=%d", o.MaxRead),
	}
	if o.AllowOther {
		options = append(options, "allow_other")
	}
	if o.NoExec {
		options = append(options, "noexec")
	}
	for i, text := range options {
		options[i] = strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(text)
	}
	return strings.Join(options, ",")
}

// receiveDescriptor receives a message with one descriptor. No child inherits the descriptor.
func receiveDescriptor(socket int) (fd int, err error) {
	var data [4]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return -1, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			return fds[0], nil
		}
	}
	return -1, errors.New("the message has no descriptor")
}
