package doctor

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var errNoRanges = errors.New("ranges are ignored")

// soundMachine returns a machine without a fault.
func soundMachine() Machine {
	now := time.Unix(1_700_000_000, 0)
	return Machine{
		Fuse:       func() error { return nil },
		AllowOther: func() bool { return true },
		Release:    "6.12.1-amd64", CanPass: true, OpenFiles: 1 << 20,
		FileSystem: func(string) (unix.Statfs_t, error) {
			return unix.Statfs_t{Type: unix.EXT4_SUPER_MAGIC, Bavail: 1 << 30, Frsize: 4096}, nil
		},
		CacheDir: "/cache", Mountpoint: "/mnt/x", CheckFolder: func(string) error { return nil }, IsMounted: func(error) bool { return false },
		Source: "https://host/store", Open: func(context.Context) (bool, error) { return false, nil },
		ServerTime: func(context.Context) (time.Time, error) { return now, nil },
		Now:        func() time.Time { return now.Add(time.Minute) },
		NoRanges:   errNoRanges,
	}
}

// Each fault is found alone, with advice.
func TestFaults(t *testing.T) {
	fileSystem := func(st unix.Statfs_t) func(*Machine) {
		return func(m *Machine) { m.FileSystem = func(string) (unix.Statfs_t, error) { return st, nil } }
	}
	open := func(err error) func(*Machine) {
		return func(m *Machine) { m.Open = func(context.Context) (bool, error) { return false, err } }
	}
	tests := []struct {
		name   string
		inject func(*Machine)
		want   string // check and state
		advice string
	}{
		{"no device", func(m *Machine) {
			m.Fuse = func() error { return errors.New("there is no /dev/fuse; load it: modprobe fuse") }
		}, "fuse problem", "modprobe fuse"},
		{"no helper", func(m *Machine) {
			m.Fuse = func() error {
				return errors.New("without root, fusermount3 is needed; install it: apt-get install fuse3")
			}
		}, "fuse problem", "apt-get install fuse3"},
		{"fuse.conf", func(m *Machine) { m.AllowOther = func() bool { return false } }, "fuse.conf note", "user_allow_other"},
		{"old kernel", func(m *Machine) { m.Release = "6.8.0-generic" }, "passthrough note", "Linux 6.9"},
		{"no capability", func(m *Machine) { m.CanPass = false }, "passthrough note", "as root"},
		{"few open files", func(m *Machine) { m.OpenFiles = 1024 }, "limits problem", "ulimit -n"},
		{"cache on NFS", fileSystem(unix.Statfs_t{Type: unix.NFS_SUPER_MAGIC, Bavail: 1 << 30, Frsize: 4096}), "cache problem", "--cache-dir"},
		{"no place for a cache", func(m *Machine) {
			m.CacheErr = errors.New("neither XDG_CACHE_HOME nor HOME is an absolute path; say where with --cache-dir")
		}, "cache note", "say where"},
		{"cache in a file", func(m *Machine) { m.CacheErr, m.NamedCache = unix.ENOTDIR, true }, "cache problem", "another folder"},
		{"full disk", fileSystem(unix.Statfs_t{Type: unix.EXT4_SUPER_MAGIC, Bavail: 100, Frsize: 4096}), "space problem", "make room"},
		{"mountpoint", func(m *Machine) { m.CheckFolder = func(string) error { return unix.ENOENT } }, "mountpoint problem", "another folder"},
		{"unreachable", open(errors.New("https://host/store: connection refused")), "origin problem", "the network"},
		{"no ranges", open(fmt.Errorf("https://host/store: %w", errNoRanges)), "ranges problem", "range requests"},
		{"token", open(fmt.Errorf("https://host/store: %w", iofs.ErrPermission)), "token problem", "renew the token"},
		{"empty", func(m *Machine) { m.Open = func(context.Context) (bool, error) { return true, nil } }, "origin note", "xetfs publish"},
		{"no folder", func(m *Machine) {
			m.Local, m.Open = true, func(context.Context) (bool, error) { return false, iofs.ErrPermission }
		}, "origin problem", "this user can read"},
		{"no time", func(m *Machine) {
			m.ServerTime = func(context.Context) (time.Time, error) { return time.Time{}, unix.ECONNREFUSED }
		}, "clock note", ""},
		{"clock", func(m *Machine) { m.Now = func() time.Time { return time.Unix(1_700_003_600, 0) } }, "clock problem", "timedatectl"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := soundMachine()
			tt.inject(&m)
			var found []Finding
			for _, f := range Examine(t.Context(), m) {
				if f.State != OK {
					found = append(found, f)
				}
			}
			if len(found) != 1 || found[0].Check+" "+found[0].State != tt.want || !strings.Contains(found[0].Advice, tt.advice) {
				t.Errorf("it finds %v, want %s with %q", found, tt.want, tt.advice)
			}
			for _, f := range found {
				if strings.ContainsAny(f.String(), "\n") {
					t.Errorf("%q has more than one line", f)
				}
			}
		})
	}
}

// A sound machine has no finding but good ones.
func TestSound(t *testing.T) {
	all := Examine(t.Context(), soundMachine())
	for _, f := range all {
		if f.State != OK || f.Advice != "" {
			t.Errorf("it finds %v", f)
		}
	}
	if len(all) != 9 {
		t.Errorf("%d findings, want 9", len(all))
	}
}

// A mountpoint where SOURCE is mounted already is no fault.
func TestMounted(t *testing.T) {
	m := soundMachine()
	m.CheckFolder, m.IsMounted = func(string) error { return unix.EBUSY }, func(error) bool { return true }
	for _, f := range Examine(t.Context(), m) {
		if f.State != OK || f.Check == "mountpoint" && !strings.Contains(f.Text, "shows SOURCE already") {
			t.Errorf("it finds %v", f)
		}
	}
}

// Without FUSE there is no finding about --allow-other.
func TestNoFuse(t *testing.T) {
	m := soundMachine()
	m.Fuse = func() error { return unix.EACCES }
	for _, f := range Examine(t.Context(), m) {
		if f.Check == "fuse.conf" {
			t.Errorf("finding %q", f)
		}
	}
}
