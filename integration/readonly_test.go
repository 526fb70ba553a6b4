package integration

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// Every system call that changes something is refused, also by root.
func TestK23_ReadOnly(t *testing.T) {
	dir := t.TempDir()
	content := harness.Noise(1, 100_000)
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, content, harness.Noise(2, 10))
	m := harness.MountSource(t, dir)
	var (
		file   = m.File(stored[0].Hash)
		other  = m.File(stored[1].Hash)
		folder = m.Path("by-hash")
		fresh  = m.Path("by-hash", "new")
		beside = filepath.Join(t.TempDir(), "beside")
	)
	if err := os.WriteFile(beside, []byte("beside"), 0o644); err != nil {
		t.Fatal(err)
	}
	now := []unix.Timespec{{Sec: 1}, {Sec: 1}}
	tests := []struct {
		name string
		do   func() error
		want error // nil: EROFS
	}{
		{"access to write a file", func() error { return unix.Access(file, unix.W_OK) }, nil},
		{"access to write a folder", func() error { return unix.Access(folder, unix.W_OK) }, nil},
		{"open for writing", func() error { return openAndClose(file, unix.O_WRONLY) }, nil},
		{"open for both", func() error { return openAndClose(file, unix.O_RDWR) }, nil},
		{"open to append", func() error { return openAndClose(file, unix.O_WRONLY|unix.O_APPEND) }, nil},
		{"open and truncate", func() error { return openAndClose(file, unix.O_RDONLY|unix.O_TRUNC) }, nil},
		{"create", func() error { return openAndClose(fresh, unix.O_RDONLY|unix.O_CREAT) }, nil},
		{"create alone", func() error { return openAndClose(fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) }, nil},
		{"nameless file", func() error { return openAndClose(folder, unix.O_RDWR|unix.O_TMPFILE) }, nil},
		{"mkdir", func() error { return unix.Mkdir(fresh, 0o755) }, nil},
		{"mkdir in the root", func() error { return unix.Mkdir(m.Path("new"), 0o755) }, nil},
		{"rmdir", func() error { return unix.Rmdir(folder) }, nil},
		{"unlink", func() error { return unix.Unlink(file) }, nil},
		{"rename", func() error { return unix.Rename(file, fresh) }, nil},
		{"rename over another", func() error { return unix.Rename(file, other) }, nil},
		{"rename without replacing", func() error { return renameat2(file, fresh, unix.RENAME_NOREPLACE) }, nil},
		{"exchange", func() error { return renameat2(file, other, unix.RENAME_EXCHANGE) }, nil},
		{"rename a folder", func() error { return unix.Rename(folder, m.Path("moved")) }, nil},
		{"link", func() error { return unix.Link(file, fresh) }, nil},
		{"symlink", func() error { return unix.Symlink("target", fresh) }, nil},
		{"mknod of a pipe", func() error { return unix.Mknod(fresh, unix.S_IFIFO|0o644, 0) }, nil},
		{"mknod of a file", func() error { return unix.Mknod(fresh, unix.S_IFREG|0o644, 0) }, nil},
		{"chmod", func() error { return unix.Chmod(file, 0o777) }, nil},
		{"chmod of a folder", func() error { return unix.Chmod(folder, 0o777) }, nil},
		{"chown", func() error { return unix.Chown(file, 1, 1) }, nil},
		{"lchown", func() error { return unix.Lchown(file, 1, 1) }, nil},
		{"utimensat", func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, file, now, 0) }, nil},
		{"touch", func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, file, nil, 0) }, nil},
		{"setxattr", func() error { return unix.Setxattr(file, "user.mine", []byte("x"), 0) }, nil},
		{"setxattr of ours", func() error { return unix.Setxattr(file, "user.xet.hash", []byte("x"), 0) }, nil},
		{"removexattr", func() error { return unix.Removexattr(file, "user.xet.hash") }, nil},
		{"truncate", func() error { return unix.Truncate(file, 0) }, nil},
		{"truncate to be longer", func() error { return unix.Truncate(file, 1<<30) }, nil},
		{"change the flags", func() error { return setFlags(file) }, nil},
		{"bind a socket", func() error { return bindSocket(fresh) }, nil},
		{"copy by name", func() error { return openAndClose(fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC) }, nil},

		// These get a descriptor that cannot write, and say so before anything else.
		{"write to a mapping", func() error { return mapToWrite(file) }, unix.EACCES},
		{"make a mapping writable", func() error { return protectToWrite(file) }, unix.EACCES},
		{"write", func() error {
			return harness.WithFile(file, func(fd int) error { _, err := unix.Write(fd, []byte("x")); return err })
		}, unix.EBADF},
		{"fallocate", func() error {
			return harness.WithFile(file, func(fd int) error { return unix.Fallocate(fd, 0, 0, 10) })
		}, unix.EBADF},
		{"ftruncate", func() error { return harness.WithFile(file, func(fd int) error { return unix.Ftruncate(fd, 0) }) }, unix.EINVAL},
		{"copy into", func() error { return copyInto(file, beside) }, unix.EBADF},
		{"fchmod", func() error { return harness.WithFile(file, func(fd int) error { return unix.Fchmod(fd, 0o777) }) }, nil},
		{"fchown", func() error { return harness.WithFile(file, func(fd int) error { return unix.Fchown(fd, 1, 1) }) }, nil},
		{"futimens", func() error { return harness.WithFile(file, futimens) }, nil},
		{"fsetxattr", func() error {
			return harness.WithFile(file, func(fd int) error { return unix.Fsetxattr(fd, "user.mine", []byte("x"), 0) })
		}, nil},
		{"fremovexattr", func() error {
			return harness.WithFile(file, func(fd int) error { return unix.Fremovexattr(fd, "user.xet.hash") })
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == nil {
				want = unix.EROFS
			}
			if err := tt.do(); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
	if got := namesIn(t, folder); len(got) != 2 {
		t.Errorf("by-hash has %q, want the two files", got)
	}
	if sum, err := openReader(t, file, bytes.NewReader(content)).ReadAll(4096); err != nil || sum != stored[0].SHA256 {
		t.Errorf("afterwards the file has SHA-256 %x, %v", sum, err)
	}
}

func renameat2(from, to string, flags uint) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
}

func futimens(fd int) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0, 0, 0)
	return e
}

func setFlags(path string) error {
	return harness.WithFile(path, func(fd int) error {
		const immutable = 0x10
		flags := int(immutable)
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, uintptr(unsafe.Pointer(&flags)))
		return e
	})
}

func bindSocket(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The path of a socket must be short; that of a test's folder is not.
	dir, err := unix.Open(path[:len(path)-len("/new")], unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	old, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := unix.Fchdir(dir); err != nil {
		return err
	}
	defer os.Chdir(old) //nolint:errcheck // it was the working directory
	return unix.Bind(fd, &unix.SockaddrUnix{Name: "new"})
}

func mapToWrite(path string) error {
	return harness.WithFile(path, func(fd int) error {
		b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			err = unix.Munmap(b)
		}
		return err
	})
}

func protectToWrite(path string) error {
	return harness.WithFile(path, func(fd int) error {
		b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		defer unix.Munmap(b) //nolint:errcheck // it was mapped
		return unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE)
	})
}

func copyInto(path, from string) error {
	return harness.WithFile(path, func(to int) error {
		return harness.WithFile(from, func(fd int) error {
			_, err := unix.CopyFileRange(fd, nil, to, nil, 6, 0)
			return err
		})
	})
}
