package main

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// madeUp knows on which devices the kernel makes files up as they are read. It may be
// used by several goroutines; the zero value is ready.
type madeUp struct {
	mu       sync.Mutex
	byDevice map[uint64]string // name of the file system; "": one with files; guarded by mu
}

// madeUpTypes are the file systems whose files are made up as they are read.
var madeUpTypes = map[int64]string{
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

// check says that a device has made-up files, if it has. It asks statfs once a device.
func (m *madeUp) check(device uint64, statfs func(*unix.Statfs_t) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	what, known := m.byDevice[device]
	if !known {
		var st unix.Statfs_t
		if err := statfs(&st); err != nil {
			return nil //nolint:nilerr // reading will say so, too
		}
		what = madeUpTypes[int64(st.Type)] //nolint:unconvert // an int32 on some machines
		if m.byDevice == nil {
			m.byDevice = map[uint64]string{}
		}
		m.byDevice[device] = what
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("in a %s file system; what the kernel makes up has no end", what)
}
