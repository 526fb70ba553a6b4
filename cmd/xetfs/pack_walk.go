package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folders packs all files of all folders.
func (p *packing) folders(folders []string) error {
	for _, folder := range folders {
		w := &packWalk{packing: p, root: folder}
		if err := filepath.WalkDir(entered(folder), w.visit); err != nil {
			return err
		}
	}
	return nil
}

// entered is a path that is followed if it is a link to a folder: it was given by name.
func entered(folder string) string {
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		return folder + string(filepath.Separator)
	}
	return folder
}

// measure finds out how much there is to do, while packing goes on.
func (p *packing) measure(ctx context.Context, folders []string) {
	for _, folder := range folders {
		_ = filepath.WalkDir(entered(folder), func(_ string, d iofs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil {
					p.bar.expect(info.Size())
				}
			}
			return ctx.Err()
		})
	}
	p.bar.start()
}

// A packWalk goes through one folder.
type packWalk struct {
	*packing
	root   string
	device uint64 // of the folder above
}

// visit is called for everything in the folder, in the order of names.
func (w *packWalk) visit(path string, d iofs.DirEntry, err error) error {
	path = filepath.Clean(path)
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case err != nil && path == filepath.Clean(w.root):
		return fmt.Errorf("%s: %w", path, reason(err))
	case err != nil:
		return w.skip(path, reason(err))
	case d.IsDir():
		return w.enter(path)
	case !d.Type().IsRegular():
		return w.skip(path, fmt.Errorf("%s; only regular files are packed", kindOf(d.Type())))
	}
	return w.file(path)
}

// enter decides whether a folder is looked into.
func (w *packWalk) enter(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil //nolint:nilerr // reading it will say so, too
	}
	if w.store.is(path) {
		w.report.note(path + " is the store itself, and is left out")
		return filepath.SkipDir
	}
	if st.Dev == w.device {
		return nil
	}
	w.device = st.Dev
	if what, ok := w.pseudo(path, st.Dev); ok {
		if err := w.skip(path, fmt.Errorf("a %s file system; what the kernel makes up has no end", what)); err != nil {
			return err
		}
		return filepath.SkipDir
	}
	return nil
}

// is says whether a folder is the store.
func (s *packStore) is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, s.root)
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

// pseudo says which made-up file system a path is on, if any. It asks once a device.
func (p *packing) pseudo(path string, device uint64) (what string, ok bool) {
	if what, known := p.devices[device]; known {
		return what, what != ""
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", false
	}
	what = pseudoTypes[int64(st.Type)] //nolint:unconvert // an int32 on some machines
	p.devices[device] = what
	return what, what != ""
}

// skip passes over something that cannot be packed.
func (p *packing) skip(path string, why error) error {
	if p.o.strict {
		return fmt.Errorf("%s: %w", path, why)
	}
	p.report.skip(path, why)
	return nil
}

func kindOf(mode iofs.FileMode) string {
	switch {
	case mode&iofs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&iofs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&iofs.ModeSocket != 0:
		return "a socket"
	case mode&iofs.ModeDevice != 0:
		return "a device"
	}
	return "not a file"
}

// maxReads is how often a file is read that changes meanwhile.
const maxReads = 3

// file packs one file.
func (p *packing) file(path string) error {
	var err error
	for range maxReads {
		p.report.add(path)
		if err = p.read(path); err == nil {
			return nil
		}
		p.report.drop()
		if !errors.Is(err, errChanged) {
			break
		}
	}
	var unreadable *readError
	if errors.As(err, &unreadable) {
		return p.skip(path, unreadable.error)
	}
	return err
}

// A readError is an error of the file that is packed, not of the store.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

func (p *packing) read(path string) error {
	// A pipe or device in the place of the file must not be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err != nil {
		return &readError{reason(err)}
	}
	defer f.Close()
	s, err := newSteady(f, p.bar)
	if err != nil {
		return &readError{reason(err)}
	}
	if what, ok := p.pseudo(path, s.before.Dev); ok {
		return &readError{fmt.Errorf("in a %s file system; what the kernel makes up has no end", what)}
	}
	return p.w.AddFile(p.ctx, s)
}
