package picture

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A File is the output of a page. A regular file is replaced by Commit, and unchanged before.
type File struct {
	io.Writer
	file         *os.File // nil: standard output
	target, temp string   // "": the file is no regular one and is written in place
}

// Create opens the output of a page: "-" is stdout.
func Create(path string, stdout io.Writer) (*File, error) {
	if path == "-" {
		return &File{Writer: stdout}, nil
	}
	f, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("--html %s: %w", ui.QuoteName(path), ui.Reason(err))
	}
	return f, nil
}

func create(path string) (*File, error) {
	target, mode := targetOf(path), fs.FileMode(0o666) // and the umask
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return nil, errors.New("is a folder")
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(target, os.O_WRONLY, 0)
		return &File{Writer: f, file: f}, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if info != nil {
		mode = info.Mode().Perm()
	}
	folder, _ := filepath.Split(target)
	temp := folder + ".xetfs-html-" + rand.Text()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	page := &File{Writer: f, file: f, target: target, temp: temp}
	if info != nil {
		if err := f.Chmod(mode); err != nil { // the umask does not apply
			page.Discard()
			return nil, err
		}
	}
	return page, nil
}

// maxLinks bounds a chain of links, as in Linux.
const maxLinks = 40

// targetOf returns the path behind links. The file there may be absent.
func targetOf(path string) string {
	for range maxLinks {
		link, err := os.Readlink(path)
		if err != nil {
			break // no link, or absent
		}
		if !filepath.IsAbs(link) {
			folder, _ := filepath.Split(path) // not cleaned: .. behind a linked folder leads elsewhere
			link = folder + link
		}
		path = link
	}
	return path
}

// Commit ends the output. A regular file appears under its name, with all its bytes on disk.
func (f *File) Commit() error {
	if f.file == nil {
		return nil
	}
	var err error
	if f.temp != "" {
		err = f.file.Sync()
	}
	err = errors.Join(err, f.file.Close())
	if err == nil && f.temp != "" {
		err = os.Rename(f.temp, f.target)
	}
	if err == nil {
		f.temp = ""
	}
	return err
}

// Discard removes an output that was not committed.
func (f *File) Discard() {
	if f.temp != "" {
		f.file.Close()
		_ = os.Remove(f.temp)
	}
}
