package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hungSample is how long a thread is in the same system call before it counts as hung.
const hungSample = 50 * time.Millisecond

// hungPaths returns the paths of file system calls in which threads of this process, and of
// its children, are waiting. It touches no file system but /proc.
func hungPaths() []string {
	before := blockedCalls()
	time.Sleep(hungSample)
	var paths []string
	for task, call := range blockedCalls() {
		if path := call.path(filepath.Dir(filepath.Dir(task))); path != "" && before[task] == call {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// A blockedCall is a system call in which a thread waits: the text of /proc/…/syscall.
//
//	257 0xffffff9c 0xc000012345 0x80000 0x0 0x0 0x0 0x7ffd… 0x4a…
//	call, six arguments, stack pointer, program counter
type blockedCall string

// blockedCalls returns the calls of all threads that wait, by their folders /proc/P/task/T.
func blockedCalls() map[string]blockedCall {
	processes := []string{"self"}
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		processes = append(processes, strings.Fields(string(children))...)
	}
	calls := make(map[string]blockedCall)
	for _, p := range processes {
		tasks, _ := filepath.Glob("/proc/" + p + "/task/*")
		for _, task := range tasks {
			if text, err := os.ReadFile(filepath.Join(task, "syscall")); err == nil {
				calls[task] = blockedCall(text)
			}
		}
	}
	return calls
}

// callArguments are the system calls that may wait for a file system: whether a descriptor
// and a path are among their arguments.
var callArguments = map[uint64]struct{ fd, path bool }{
	unix.SYS_OPENAT:          {true, true},
	unix.SYS_NEWFSTATAT:      {true, true},
	unix.SYS_STATX:           {true, true},
	unix.SYS_READLINKAT:      {true, true},
	unix.SYS_FACCESSAT:       {true, true},
	unix.SYS_FACCESSAT2:      {true, true},
	unix.SYS_OPENAT2:         {true, true},
	unix.SYS_STATFS:          {false, true},
	unix.SYS_CHDIR:           {false, true},
	unix.SYS_UMOUNT2:         {false, true},
	unix.SYS_GETXATTR:        {false, true},
	unix.SYS_LGETXATTR:       {false, true},
	unix.SYS_LISTXATTR:       {false, true},
	unix.SYS_LLISTXATTR:      {false, true},
	unix.SYS_READ:            {true, false},
	unix.SYS_PREAD64:         {true, false},
	unix.SYS_WRITE:           {true, false},
	unix.SYS_PWRITE64:        {true, false},
	unix.SYS_GETDENTS64:      {true, false},
	unix.SYS_FSTAT:           {true, false},
	unix.SYS_FSTATFS:         {true, false},
	unix.SYS_FGETXATTR:       {true, false},
	unix.SYS_FLISTXATTR:      {true, false},
	unix.SYS_FSYNC:           {true, false},
	unix.SYS_FDATASYNC:       {true, false},
	unix.SYS_SYNC_FILE_RANGE: {true, false},
	unix.SYS_CLOSE:           {true, false},
	unix.SYS_COPY_FILE_RANGE: {true, false},
}

// path returns the file that a call of a process waits for; "": it waits for none.
func (c blockedCall) path(proc string) string {
	words := strings.Fields(string(c))
	if len(words) < 3 {
		return "" // running
	}
	number, err := strconv.ParseUint(words[0], 10, 64)
	has, known := callArguments[number]
	if err != nil || !known {
		return ""
	}
	words = words[1:]
	dir := ""
	if has.fd {
		if dir, err = descriptorPath(proc, words[0]); err != nil {
			return ""
		}
		words = words[1:]
	}
	if !has.path {
		return dir
	}
	name := stringAt(proc, words[0])
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// descriptorPath returns the file behind a descriptor, an error for pipes and devices.
func descriptorPath(proc, argument string) (string, error) {
	fd, err := strconv.ParseUint(argument, 0, 64)
	if err != nil {
		return "", err
	}
	link := filepath.Join(proc, "fd", strconv.Itoa(int(int32(fd)))) //nolint:gosec // the kernel shows an int as 64 bits
	if int32(fd) == unix.AT_FDCWD {                                 //nolint:gosec // likewise
		link = filepath.Join(proc, "cwd")
	}
	path, err := os.Readlink(link)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
		return "", fmt.Errorf("%s is no file", path)
	}
	return path, nil
}

// stringAt reads a string that ends with a zero byte from the memory of a process.
func stringAt(proc, argument string) string {
	address, err := strconv.ParseInt(argument, 0, 64)
	if err != nil {
		return ""
	}
	memory, err := os.Open(filepath.Join(proc, "mem"))
	if err != nil {
		return ""
	}
	defer memory.Close()
	b := make([]byte, unix.PathMax)
	n, _ := memory.ReadAt(b, address)
	text, _, ended := bytes.Cut(b[:n], []byte{0})
	if !ended {
		return ""
	}
	return string(text)
}
