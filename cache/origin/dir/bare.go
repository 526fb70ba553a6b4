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
	files openFiles
	found []*File

	naming context.CancelFunc // ends the naming of xorbs
	named  chan struct{}      // closed when every xorb has its name, or cannot have one

	mu      sync.Mutex
	objects map[names.Key]*object // guarded by mu
	keys    []names.Key           // sorted, of objects; nil: to be made; guarded by mu
}

// An object is the files that hold one object: equal if nothing is damaged.
type object struct {
	copies   []*File
	rejected []int // how often each copy was found damaged; nil: none ever was
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
// It returns an error that is io/fs.ErrNotExist if there is no such folder.
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
		found:   found,
		named:   make(chan struct{}),
		objects: map[names.Key]*object{},
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

// name finds out the hashes of xorbs that nothing else names.
func (s *Bare) name(ctx context.Context, nameless []*File) {
	defer close(s.named)
	for _, f := range nameless {
		err := f.nameXorb(ctx, s.files.root)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if called(f.Path) {
				f.Err = err
			} else {
				f.Kind = 0 // a chance likeness
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

// Files returns every shard and xorb of the folder, sorted by path, several of one name
// included. It also returns the unusable files whose names promise a shard or xorb; their Err
// is set. It waits until all xorbs are named, or until ctx ends.
func (s *Bare) Files(ctx context.Context) ([]File, error) {
	select {
	case <-s.named:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var files []File
	for _, f := range s.found {
		if f.Kind != 0 || f.Err != nil {
			files = append(files, *f)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// Local implements origin.CostReporter.
func (s *Bare) Local() bool { return true }

// lookup returns the copy of an object that is in use.
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
	bad, others := o.copies[best], len(o.copies)-1
	s.mu.Unlock()
	s.files.drop(bad.Path)
	return others
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
	return f != nil && s.files.readNow(f.Path, p, off)
}

// Size implements origin.Store.
func (s *Bare) Size(ctx context.Context, k names.Key) (int64, error) {
	f, err := s.lookup(ctx, k)
	if err != nil {
		return 0, err
	}
	return s.files.size(f.Path)
}

// Get implements origin.Store. The tag is made of size and time of the file.
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

// List implements origin.Store. It shows the objects whose names are known by now.
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
