package main

import (
	"bufio"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A walkMounts knows what is to be left out because of the mount or the file system on which
// it is. Mounts are told apart by their ids: a file system may have several devices, as btrfs
// has one for each subvolume. It may be used by several goroutines; the zero value is ready.
type walkMounts struct {
	oneFileSystem bool // leave out all other mounts

	mu       sync.Mutex
	types    map[uint64]string // of mounts, by id; guarded by mu
	byDevice map[uint64]string // name of a file system without real files; "": it has some; guarded by mu
}

// checkMount says why what is on a mount is left out, when the folder above is on another.
func (m *walkMounts) checkMount(above, mount uint64) error {
	if above == 0 || mount == 0 || above == mount {
		return nil
	}
	typ, err := m.mountType(mount)
	switch {
	case err != nil:
		return err
	case typ == xetfsType:
		return leftOut("is a mount of xetfs, and is left out")
	case m.oneFileSystem:
		return leftOut("is another mount, and is left out (--one-file-system)")
	}
	return nil
}

// mountType returns the type of the file system of a mount; "" if it is unknown.
func (m *walkMounts) mountType(id uint64) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if typ, ok := m.types[id]; ok {
		return typ, nil
	}
	types, err := readMountTypes()
	if err != nil {
		return "", err
	}
	if _, ok := types[id]; !ok {
		types[id] = ""
	}
	m.types = types
	return types[id], nil
}

// xetfsType is the type of the mounts of xetfs.
const xetfsType = "fuse.xetfs"

// readMountTypes returns the types of all mounts by their IDs. The ID is the first field of a
// line of mountinfo, the type the first field behind the dash.
func readMountTypes() (map[uint64]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if errors.Is(err, iofs.ErrNotExist) {
		return map[uint64]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	types := map[uint64]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		front, back, ok := strings.Cut(lines.Text(), " - ")
		first, _, _ := strings.Cut(front, " ")
		id, err := strconv.ParseUint(first, 10, 64)
		if err != nil || !ok {
			return nil, fmt.Errorf("mountinfo: line %.200q is not understood", lines.Text())
		}
		types[id], _, _ = strings.Cut(back, " ")
	}
	return types, lines.Err()
}

// pseudoTypes are the file systems whose files are made up as they are read.
var pseudoTypes = map[int64]string{
	unix.PROC_SUPER_MAGIC:    "proc",
	unix.SYSFS_MAGIC:         "sysfs",
	unix.DEBUGFS_MAGIC:       "debugfs",
	unix.TRACEFS_MAGIC:       "tracefs",
	unix.CGROUP_SUPER_MAGIC:  "cgroup",
	unix.CGROUP2_SUPER_MAGIC: "cgroup2",
	unix.SECURITYFS_MAGIC:    "securityfs",
	unix.BPF_FS_MAGIC:        "bpf",
	unix.DEVPTS_SUPER_MAGIC:  "devpts",
	unix.EFIVARFS_MAGIC:      "efivarfs",
	unix.PSTOREFS_MAGIC:      "pstore",
}

// checkDevice says why what is on a device is left out. It calls statfs once per device.
func (m *walkMounts) checkDevice(device uint64, statfs func(*unix.Statfs_t) error) error {
	m.mu.Lock()
	what, known := m.byDevice[device]
	m.mu.Unlock()
	if !known {
		var st unix.Statfs_t
		if err := statfs(&st); err != nil { // without mu: a dead server may never answer
			return err
		}
		what = pseudoTypes[int64(st.Type)] //nolint:unconvert // an int32 on some machines
		m.mu.Lock()
		if m.byDevice == nil {
			m.byDevice = map[uint64]string{}
		}
		m.byDevice[device] = what
		m.mu.Unlock()
	}
	if what == "" {
		return nil
	}
	return kindError{fmt.Errorf("in a %s file system; what the kernel makes up has no end", what)}
}
