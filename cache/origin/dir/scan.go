package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A File is one shard or xorb that was found in a folder.
type File struct {
	Path     string     // below the folder, slash-separated
	Kind     names.Kind // zero: it is called like one, and is none
	Hash     codec.Hash // what it is kept under; zero while a xorb has no name yet
	Named    bool       // Hash is the 64 digits in the file's name
	Size     int64
	Modified time.Time
	Err      error // why a file that is called like a shard or a xorb is not used
}

// scan looks at every regular file below the root, several at a time. Links are not
// followed, and files that are neither shard nor xorb are passed over.
func scan(ctx context.Context, root *os.Root) ([]*File, error) {
	var found []*File
	passed := passedOver(root)
	err := iofs.WalkDir(root.FS(), ".", func(p string, d iofs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && p == ".":
			return wrap(p, err)
		case err != nil:
			found = append(found, &File{Path: p, Err: wrap(p, err)})
			return nil
		case d.IsDir() && slices.Contains(passed, p):
			return iofs.SkipDir
		case !d.Type().IsRegular() || isScratch(p):
			return nil
		}
		if info, err := d.Info(); err == nil {
			found = append(found, &File{Path: p, Size: info.Size(), Modified: info.ModTime()})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var looking errgroup.Group
	looking.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, f := range found {
		looking.Go(func() error {
			if f.Err == nil && ctx.Err() == nil {
				f.Err = f.look(ctx, root)
			}
			return ctx.Err()
		})
	}
	if err := looking.Wait(); err != nil {
		return nil, err
	}
	// A folder may hold millions of other files.
	return slices.DeleteFunc(found, func(f *File) bool { return f.Kind == 0 && f.Err == nil }), nil
}

// passedOver returns the folders of a catalog above its data: their files are named by
// hashes, too. Without a catalog there are none.
func passedOver(root *os.Root) []string {
	info, err := root.Lstat(path.Clean(names.SettingsPrefix))
	if err != nil || !info.IsDir() {
		return nil
	}
	var passed []string
	for _, prefix := range []string{
		names.RefPrefix, names.VersionPrefix, names.PagePrefix, names.SnapshotPrefix, names.SymbolPrefix,
		names.SettingsPrefix, names.SweepPrefix, names.SweepListPrefix,
	} {
		passed = append(passed, path.Clean(prefix))
	}
	return passed
}

// isScratch reports whether a path below root is a scratch file, a lock, or a value that is not
// linked yet. Only the name counts. A killed writer may have left a whole xorb in tmp before
// any object had its key. A later session must not rely on that xorb.
func isScratch(p string) bool {
	switch folder, name := path.Split(p); folder {
	case tmpDir + "/":
		return scratchName.MatchString(name)
	case lockDir + "/":
		return lockName.MatchString(name)
	}
	return false
}

var (
	scratchName = regexp.MustCompile(`^(?:[A-Z2-7]{26}|scratch-[0-9]+)$`) // rand.Text, os.CreateTemp
	lockName    = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// errNeither is the error of files whose names promise a shard or xorb.
var errNeither = errors.New("neither a shard nor a xorb, whatever its name says")

// look determines the kind and the hash of a file. It reads little of the file, except of a
// shard without digits in its name. It returns errors only of files whose name or first bytes
// promise a shard or xorb.
func (f *File) look(ctx context.Context, root *os.Root) (err error) {
	f.Hash, f.Named = hashInName(f.Path)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
		if err != nil && f.Kind == 0 && !f.Named && !called(f.Path) {
			err = nil
		}
	}()
	file, err := openRegular(root, f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	head := make([]byte, min(f.Size, 48))
	if _, err := file.ReadAt(head, 0); err != nil {
		return wrap(f.Path, err)
	}
	if shard.IsShard(head) {
		f.Kind = names.ShardKind
		return f.nameShard(stoppable{ctx, file})
	}
	footer, err := xorb.Peek(file, f.Size)
	switch _, headErr := xorb.DecodeChunkHeader(head); {
	case err == nil:
		f.Kind = names.XorbKind
		// The footer's hash goes before the file's name, which anybody can change.
		f.Hash, f.Named = footer, f.Named && f.Hash == footer
	case headErr == nil:
		f.Kind = names.XorbKind
	default:
		return errNeither
	}
	return nil
}

// maxNameless is the largest shard that is read whole to learn its name. Writers end
// a shard at 64 MiB.
const maxNameless = 128 << 20

// nameShard hashes a shard in a stream: its size is what a sparse file says.
func (f *File) nameShard(file io.ReaderAt) error {
	if f.Named {
		return nil
	}
	if f.Size > maxNameless {
		return fmt.Errorf("%w: %d bytes, %d is the most for one whose name does not have its hash", shard.ErrTooLarge, f.Size, maxNameless)
	}
	h, err := merkle.ReadChunk(file, f.Size)
	if err != nil {
		return wrap(f.Path, err)
	}
	f.Hash = h
	return nil
}

// nameXorb gives a xorb without footer and without digits in its name the hash of
// what it unpacks to.
func (f *File) nameXorb(ctx context.Context, root *os.Root) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	file, err := openRegular(root, f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	var first error
	in, err := xorb.Check(stoppable{ctx, file}, f.Size, func(fault error) {
		if first == nil {
			first = fault
		}
	})
	if err := errors.Join(err, first); err != nil {
		return err
	}
	f.Hash = in.Root()
	return nil
}

// A stoppable is a file whose reader can be stopped between two reads.
type stoppable struct {
	ctx context.Context
	f   *os.File
}

func (s stoppable) ReadAt(p []byte, off int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.f.ReadAt(p, off)
}

// called reports whether a file's name ends like that of a shard or xorb.
func called(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".shard", ".mdb", ".xorb":
		return true
	}
	return false
}

var digits = regexp.MustCompile(`(?:^|[^0-9a-fA-F])([0-9a-fA-F]{64})(?:[^0-9a-fA-F]|$)`)

// hashInName returns the hash whose 64 digits are part of a file's name.
func hashInName(p string) (codec.Hash, bool) {
	m := digits.FindStringSubmatch(path.Base(p))
	if m == nil {
		return codec.Hash{}, false
	}
	h, err := codec.ParseHash(m[1])
	return h, err == nil
}
