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
	Kind     names.Kind // zero: neither, despite its name
	Hash     codec.Hash // of its key; zero until the hash of a xorb is computed
	Named    bool       // Hash is the 64 digits in the file's name
	Size     int64
	Modified time.Time
	Err      error // the reason why a file with the name of a shard or xorb is not used
}

// scan reads the kind of every regular file below the root, several at once. It does not follow
// links, and it skips files that are neither shard nor xorb. A folder, link or device under the key
// of a shard or xorb is found as a File with an error.
func scan(ctx context.Context, root *os.Root) ([]*File, error) {
	var found []*File
	skipped := skippedFolders(root)
	err := iofs.WalkDir(root.FS(), ".", func(p string, d iofs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && p == ".":
			return wrap(p, err)
		case errors.Is(err, iofs.ErrNotExist): // another process removed the folder
			return nil
		case err != nil:
			found = append(found, &File{Path: p, Err: wrap(p, err)})
			return nil
		case d.IsDir() && slices.Contains(skipped, p):
			return iofs.SkipDir
		case !d.Type().IsRegular() && isDataKey(p):
			found = append(found, &File{Path: p, Err: errNotRegular})
			return nil
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

// skippedFolders returns the folders of a catalog that hold no data. Their files have hashes as
// names, too. Without a catalog it returns nil.
func skippedFolders(root *os.Root) []string {
	info, err := root.Lstat(path.Clean(names.SettingsPrefix))
	if err != nil || !info.IsDir() {
		return nil
	}
	var skipped []string
	for _, prefix := range names.Prefixes() {
		if prefix != names.ShardPrefix && prefix != names.XorbPrefix {
			skipped = append(skipped, path.Clean(prefix))
		}
	}
	return skipped
}

// isScratch reports whether a path below root is a scratch file, a lock or a part of the listing. Values
// that are not linked yet are scratch files. Only the name counts. A killed writer may have left a whole xorb in tmp before
// any object had its key. A later session must not rely on that xorb.
func isScratch(p string) bool {
	switch folder, name := path.Split(p); folder {
	case tmpDir + "/":
		return scratchName.MatchString(name)
	case lockDir + "/":
		return lockName.MatchString(name)
	case partsDir + "/":
		return partName.MatchString(name)
	}
	return false
}

var (
	scratchName = regexp.MustCompile(`^(?:[A-Z2-7]{26}|scratch-[0-9]+)$`) // rand.Text, os.CreateTemp
	lockName    = regexp.MustCompile(`^[0-9a-f]{32}$`)
	partName    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// isDataKey reports whether a path below root is the key of a shard or xorb.
func isDataKey(p string) bool {
	k, err := names.ParseKey(names.Key(p))
	return err == nil && (k.Kind == names.ShardKind || k.Kind == names.XorbKind)
}

// errNeither is the error of files whose names promise a shard or xorb.
var errNeither = errors.New("neither a shard nor a xorb, despite its name")

// look determines the kind and the hash of a file. It reads little of the file, except of a
// shard without digits in its name. It returns errors only of files whose name or first bytes
// promise a shard or xorb.
func (f *File) look(ctx context.Context, root *os.Root) (err error) {
	f.Hash, f.Named = hashInName(f.Path)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
		if err != nil && f.Kind == 0 && !f.Named && !hasDataExt(f.Path) {
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
		// The hash in the footer precedes the file name, because a rename changes only the name.
		f.Hash, f.Named = footer, f.Named && f.Hash == footer
	case headErr == nil:
		f.Kind = names.XorbKind
	default:
		return errNeither
	}
	return nil
}

// maxNameless is the maximum size of a shard that is read whole to compute its name. Writers end
// a shard at 64 MiB.
const maxNameless = 128 << 20

// nameShard computes the hash of a shard. It streams the bytes, because a sparse file may claim
// any size.
func (f *File) nameShard(file io.ReaderAt) error {
	if f.Named {
		return nil
	}
	if f.Size > maxNameless {
		return fmt.Errorf("shard is larger than the limit: %d bytes, %d is the most for one whose name does not have its hash", f.Size, maxNameless)
	}
	h, err := merkle.ReadChunk(file, f.Size)
	if err != nil {
		return wrap(f.Path, err)
	}
	f.Hash = h
	return nil
}

// nameXorb computes the hash of a xorb without footer and without digits in its name, from its
// unpacked chunks.
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

// A stoppable is a file that refuses reads once its context has ended.
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

// hasDataExt reports whether a file name ends like the name of a shard or xorb.
func hasDataExt(p string) bool {
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
