package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

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

// measure finds out how much there is to do in a folder, while it is being done.
func measure(ctx context.Context, folder string, bar *progress, leave *ignore) {
	folder = entered(folder)
	_ = filepath.WalkDir(folder, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return ctx.Err()
		}
		names := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, folder), "/"), "/")
		if last := len(names) - 1; leave.excludes(names[:last], names[last], d.IsDir()) && d.IsDir() {
			return filepath.SkipDir
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			bar.expect(info.Size())
		}
		return ctx.Err()
	})
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
	if err := w.madeUp.check(st.Dev, func(fs *unix.Statfs_t) error { return unix.Statfs(path, fs) }); err != nil {
		if err := w.skip(path, err); err != nil {
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
	if err := p.madeUp.check(s.before.Dev, func(fs *unix.Statfs_t) error { return unix.Fstatfs(int(f.Fd()), fs) }); err != nil {
		return &readError{err}
	}
	return p.w.AddFile(p.ctx, s)
}
