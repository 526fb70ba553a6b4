package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A Bare reads the shards and xorbs of a folder without keys. OpenBare finds them by content.
type Bare struct {
	files      openFiles
	candidates []*File

	naming context.CancelFunc // ends the naming of xorbs
	named  chan struct{}      // closed when the hash of every xorb is computed, or failed

	mu      sync.Mutex
	objects map[names.Key]*object // guarded by mu
	keys    []names.Key           // sorted keys of objects; nil: not sorted yet; guarded by mu
}

// An object has the files with one key. Their bytes are equal unless one is corrupt.
type object struct {
	copies   []*File
	rejected []int // the number of rejects of each copy; nil: no rejects
}

var (
	_ origin.Store       = (*Bare)(nil)
	_ origin.TryReader   = (*Bare)(nil)
	_ origin.KeyRejecter = (*Bare)(nil)
)

// OpenBare finds shards and xorbs anywhere below a folder, by their content. It does not see
// files that are added later.
//
// A shard has the hash in the 64 digits of its file's name or, without digits, the hash of all
// its bytes. A xorb has the hash in its footer, else the 64 digits in its file's name, else the
// hash of its unpacked content. A goroutine computes the hashes of unpacked content after
// OpenBare has returned. A read of an unknown object waits until all hashes are known.
//
// The error is io/fs.ErrNotExist if the folder is absent.
func OpenBare(ctx context.Context, folder string) (*Bare, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, openErr(folder, err)
	}
	found, err := scan(ctx, root)
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	s := &Bare{
		candidates: found,
		named:      make(chan struct{}),
		objects:    map[names.Key]*object{},
	}
	s.files.init(root)
	var nameless []*File
	for _, f := range found {
		switch {
		case f.Kind == 0 || f.Err != nil:
		case f.Hash.IsZero():
			nameless = append(nameless, f)
		default:
			s.addLocked(f)
		}
	}
	naming, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.naming = stop
	go s.name(naming, nameless)
	return s, nil
}

func openErr(folder string, err error) error {
	if errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("%s: %w", folder, iofs.ErrNotExist)
	}
	var inner *iofs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &origin.LocalError{Path: folder, Err: err}
}

// name computes the hashes of xorbs without footer and without digits in their names.
func (s *Bare) name(ctx context.Context, nameless []*File) {
	defer close(s.named)
	for _, f := range nameless {
		err := f.nameXorb(ctx, s.files.root)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if hasDataExt(f.Path) {
				f.Err = err
			} else {
				f.Kind = 0 // the first bytes only look like a xorb
			}
			continue
		}
		s.mu.Lock()
		s.addLocked(f)
		s.mu.Unlock()
	}
}

func (s *Bare) addLocked(f *File) {
	k := f.key()
	o := s.objects[k]
	if o == nil {
		o = new(object)
		s.objects[k] = o
		s.keys = nil
	}
	o.copies = append(o.copies, f)
}

// Files returns every shard and xorb of the folder, sorted by path, also several copies of one
// object. It also returns unusable files with the name of a shard or xorb; their Err is set. It
// waits until the hashes of all xorbs are known, or until ctx ends.
func (s *Bare) Files(ctx context.Context) ([]File, error) {
	select {
	case <-s.named:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var files []File
	for _, f := range s.candidates {
		if f.Kind != 0 || f.Err != nil {
			files = append(files, *f)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// Local implements origin.CostReporter.
func (s *Bare) Local() bool { return true }

// lookup returns the current copy of an object. It waits for xorbs whose hash is not known yet.
func (s *Bare) lookup(ctx context.Context, k names.Key) (*File, error) {
	if f := s.current(k); f != nil {
		return f, nil
	}
	select {
	case <-s.named:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f := s.current(k); f != nil {
		return f, nil
	}
	return nil, origin.ErrNotFound
}

// current returns the copy that was rejected least often, or nil.
func (s *Bare) current(k names.Key) *File {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[k]
	if o == nil {
		return nil
	}
	return o.copies[o.bestLocked()]
}

func (o *object) bestLocked() int {
	best := 0
	for i, n := range o.rejected {
		if n < o.rejected[best] {
			best = i
		}
	}
	return best
}

// RejectKey implements origin.KeyRejecter.
func (s *Bare) RejectKey(k names.Key) int {
	s.mu.Lock()
	o := s.objects[k]
	if o == nil {
		s.mu.Unlock()
		return 0
	}
	if len(o.rejected) != len(o.copies) {
		o.rejected = make([]int, len(o.copies))
	}
	best := o.bestLocked()
	o.rejected[best]++
	bad, n := o.copies[best], len(o.copies)
	s.mu.Unlock()
	s.files.drop(bad.Path)
	return n - 1
}

// ReadAt implements origin.Store.
func (s *Bare) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	f, err := s.lookup(ctx, k)
	if err != nil {
		return err
	}
	return s.files.readAt(f.Path, p, off)
}

// TryReadAt implements origin.TryReader.
func (s *Bare) TryReadAt(k names.Key, p []byte, off int64) bool {
	f := s.current(k)
	return f != nil && s.files.tryRead(f.Path, p, off)
}

// Size implements origin.Store.
func (s *Bare) Size(ctx context.Context, k names.Key) (int64, error) {
	f, err := s.lookup(ctx, k)
	if err != nil {
		return 0, err
	}
	return s.files.size(f.Path)
}

// Get implements origin.Store. The tag consists of the size and the time of the file.
func (s *Bare) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	f, err := s.lookup(ctx, k)
	if err != nil {
		return nil, "", err
	}
	tag := origin.Tag(fmt.Sprintf("%d-%d", f.Size, f.Modified.UnixNano()))
	if tag == seen {
		return nil, tag, origin.ErrUnchanged
	}
	if limit := origin.MaxObject(k); f.Size > limit {
		return nil, "", origin.Long(k, limit)
	}
	value := make([]byte, f.Size)
	if err := s.ReadAt(ctx, k, value, 0); err != nil {
		return nil, "", err
	}
	return value, tag, nil
}

// List implements origin.Store. It omits xorbs whose hashes are not known yet.
func (s *Bare) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		keys := s.sortedKeys()
		from, _ := slices.BinarySearch(keys, max(after, names.Key(prefix)))
		for _, k := range keys[from:] {
			if !strings.HasPrefix(string(k), prefix) {
				return
			}
			if k == after {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(origin.Item{}, err)
				return
			}
			f := s.current(k)
			if !yield(origin.Item{Key: k, Size: f.Size, Modified: f.Modified}, nil) {
				return
			}
		}
	}
}

func (s *Bare) sortedKeys() []names.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		for k := range s.objects {
			s.keys = append(s.keys, k)
		}
		slices.Sort(s.keys)
	}
	return s.keys
}

// Close stops the naming of xorbs and closes all files.
func (s *Bare) Close() error {
	s.naming()
	<-s.named
	s.files.close()
	return s.files.root.Close()
}
