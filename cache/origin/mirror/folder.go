package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Folder has files that are complete or absent, and never change. It is safe for concurrent
// use, also by several processes.
type Folder struct {
	path string
	max  int64
	runs string // folder of sorted runs; "": RunDir
}

// OpenFolder returns the folder at a path. Its files have up to max bytes after Trim. The folder
// is made by the first Create.
func OpenFolder(path string, max int64) *Folder { return &Folder{path: path, max: max} }

// Runs returns the folder of sorted runs in the Folder. Each local store has its own.
func (f *Folder) Runs() string { return cmp.Or(f.runs, RunDir) }

// A File is an open file of a Folder.
type File struct {
	*os.File
	Size int64
}

// An Info describes a file of a Folder.
type Info struct {
	Name     string
	Size     int64
	Modified time.Time
}

// Open opens a file for reading.
func (f *Folder) Open(name string) (*File, error) {
	// Without O_NONBLOCK a named pipe would wait for a writer.
	file, err := os.OpenFile(filepath.Join(f.path, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no ordinary file", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &File{file, info.Size()}, nil
}

// Create makes a file with the bytes that write writes. The file gets its name when all of it
// is written, and replaces a file of that name.
func (f *Folder) Create(name string, write func(io.Writer) error) error {
	path := filepath.Join(f.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(f.path, tmpPrefix)
	if err != nil {
		return err
	}
	err = write(tmp)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

const (
	tmpPrefix = "tmp-"
	strayAge  = 24 * time.Hour      // of a temporary file that no process writes to any more
	stateAge  = 30 * 24 * time.Hour // of a state that no session has saved since
)

// Remove removes a file. A failure leaves a file that the next process compares again.
func (f *Folder) Remove(name string) { _ = os.Remove(filepath.Join(f.path, name)) }

// List returns the files below a folder of the Folder, without temporary files. A folder that
// cannot be read is empty.
func (f *Folder) List(dir string) (files []Info) {
	entries, _ := os.ReadDir(filepath.Join(f.path, dir))
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && !strings.HasPrefix(e.Name(), tmpPrefix) {
			files = append(files, Info{dir + "/" + e.Name(), info.Size(), info.ModTime()})
		}
	}
	return files
}

// Trim removes the oldest files until the rest has at most the bytes of OpenFolder. It leaves
// files that are in use. It also removes temporary files of killed processes.
func (f *Folder) Trim(inUse map[string]bool) {
	files := slices.Concat(f.List(shardDir), f.List(RunDir))
	stores, _ := os.ReadDir(filepath.Join(f.path, RunDir))
	for _, dir := range stores {
		if dir.IsDir() {
			files = append(files, f.List(RunDir+"/"+dir.Name())...)
		}
	}
	slices.SortFunc(files, func(a, b Info) int { return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(a.Name, b.Name)) })
	total := int64(0)
	for _, file := range files {
		total += file.Size
	}
	for _, file := range files {
		if total > f.max && !inUse[file.Name] {
			f.Remove(file.Name)
			total -= file.Size
		}
	}
	f.removeOld(tmpPrefix+"*", strayAge)
	f.removeOld(stateDir+"/*", stateAge)
}

// removeOld removes files whose names match a pattern and that were not written for some time.
func (f *Folder) removeOld(pattern string, age time.Duration) {
	files, _ := filepath.Glob(filepath.Join(f.path, pattern))
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > age {
			_ = os.Remove(path)
		}
	}
}

// isMissing reports whether an error of Open means that there is no file.
func isMissing(err error) bool { return errors.Is(err, iofs.ErrNotExist) }
