package dir

import (
	"crypto/rand"
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/names"
)

// A xorb is written past the page cache where the file system allows it. A copy into the page
// cache takes more processor time than the hash. A large pack would also evict the pages of
// other readers.
const (
	minDirect   = 1 << 20 // bytes of a value
	directAlign = 4096    // of memory, sizes and offsets
)

func isXorb(k names.Key) bool { return strings.HasPrefix(string(k), names.XorbPrefix) }

// write writes a value to a new file in tmp and syncs the file.
func (s *Store) write(value []byte, mode os.FileMode, direct bool) (tmp string, info os.FileInfo, err error) {
	root := s.files.root
	if err := root.MkdirAll(tmpDir, folderMode); err != nil {
		return "", nil, err
	}
	tmp = path.Join(tmpDir, rand.Text())
	direct = direct && len(value) >= minDirect
	f, err := createFile(root, tmp, mode, &direct)
	if err != nil {
		return "", nil, err
	}
	err = writeValue(f, value, direct)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		info, err = f.Stat()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, errors.Join(err, root.Remove(tmp))
	}
	return tmp, info, nil
}

// createFile creates a file. It clears direct if the file cannot be written past the page
// cache.
func createFile(root *os.Root, name string, mode os.FileMode, direct *bool) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE
	if *direct {
		f, err := root.OpenFile(name, flags|os.O_EXCL|unix.O_DIRECT, mode)
		if !errors.Is(err, unix.EINVAL) {
			return f, err
		}
		*direct = false
		_ = root.Remove(name) // some file systems refuse O_DIRECT after they created the file
	}
	return root.OpenFile(name, flags|os.O_EXCL, mode)
}

// writeValue writes a value. If direct is set, all whole blocks are written past the page
// cache. The rest goes through the page cache, and so does a value that is not aligned in memory.
func writeValue(f *os.File, value []byte, direct bool) error {
	if direct {
		n, err := f.Write(value[:len(value)&^(directAlign-1)])
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
		value = value[n:]
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, 0); err != nil {
			return err
		}
	}
	_, err := f.Write(value)
	return err
}
