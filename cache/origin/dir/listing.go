package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A ListedState is what a listing covered.
type ListedState struct {
	Sum     string              `json:"sum"`     // checksum of the listing
	Folders origin.FolderStates `json:"folders"` // with durable names
	Full    time.Time           `json:"full"`    // when all folders were listed
}

// WriteListing writes the listing of the store anew (package listing), for readers behind a
// plain web server. It first makes everything durable that it names. A writer calls it as its
// last step, after its puts and deletes. It lists the files that exist. The last of several
// writers therefore lists the objects of all, also of writers that were killed before.
//
// found, if it is not nil, is the same folder as OpenBare saw it. Shards and xorbs that are not
// at the path of their key are listed with their paths. Those of an earlier listing stay listed
// as long as their files are unchanged.
//
// WriteListing returns the state of the listing. If the listing still has the state seen, the lines
// of unchanged folders are copied, for up to a day. seen may be zero.
func (s *Store) WriteListing(ctx context.Context, found *Bare, seen ListedState) (ListedState, error) {
	if err := s.Sync(ctx); err != nil {
		return ListedState{}, err
	}
	unlock, err := s.lock(ctx, listing.Key)
	if err != nil {
		return ListedState{}, wrapPut(listing.Key, err)
	}
	defer unlock()
	old, _, err := s.read(ctx, listing.Key)
	if err != nil && !errors.Is(err, origin.ErrNotFound) {
		return ListedState{}, err
	}
	before, same := listing.Unchecked(old, seen.Sum)
	if same = same && !origin.IsStale(seen.Full, clock()) && s.hasParts(before); !same {
		before, _ = listing.Decode(old) // nil: all its parts are strays
		seen.Folders, seen.Full = nil, clock()
	}
	var elsewhere []listing.Object
	if !same || found != nil {
		if elsewhere, err = s.elsewhere(ctx, old, found); err != nil {
			return ListedState{}, err
		}
	}
	var b []byte
	now := ListedState{Folders: origin.FolderStates{}, Full: seen.Full}
	if len(elsewhere) > 0 {
		b, err = listing.Encode(listing.Prefixes(), s.listed(ctx, elsewhere))
	} else {
		b, err = s.encodeListing(ctx, before, len(old), seen.Folders, now.Folders)
	}
	if err == nil && !bytes.Equal(b, old) {
		err = s.putListing(b)
	}
	if err != nil {
		return ListedState{}, err
	}
	s.removeParts(before, b)
	if len(elsewhere) > 0 {
		return ListedState{}, nil
	}
	now.Sum = listing.SumOf(b)
	return now, nil
}

// growth is the memory in bytes for objects that an old listing does not have.
const growth = 64 << 10

// encodeListing returns the listing of a store in which all objects are at the paths of their keys.
// It copies the lines of folders whose state is in seen, and adds the states of folders to now. size is
// that of the old listing in bytes.
func (s *Store) encodeListing(ctx context.Context, old *listing.Listing, size int, seen, now origin.FolderStates) ([]byte, error) {
	b := listing.NewBuilder(listing.Prefixes(), size+growth)
	scan := folderScan{
		s: s, seen: seen, now: now, start: s.allSynced(),
		file: func(item origin.Item) {
			if _, err := names.ParseKey(item.Key); err == nil {
				b.Add(listing.Object{Key: item.Key, Size: item.Size, Modified: item.Modified})
			}
		},
		same: func(dir string) {
			if p, ok := old.Part(dir + "/"); ok {
				b.AddPart(p)
			} else {
				b.AddLines(old.Lines(dir + "/"))
			}
		},
	}
	for _, prefix := range listing.Prefixes() {
		if isData(prefix) {
			if err := scan.walk(ctx, prefix); err != nil {
				return nil, err
			}
			continue
		}
		for o, err := range origin.ListPrefixes(ctx, s, []string{prefix}) {
			if err != nil {
				return nil, err
			}
			b.Add(o)
		}
	}
	return s.putParts(b)
}

// putListing replaces the listing, durably.
func (s *Store) putListing(b []byte) error {
	tmp, _, err := s.write(b, refMode, false)
	if err != nil {
		return wrapPut(listing.Key, err)
	}
	if err := s.replace(tmp, listing.Key); err != nil {
		return errors.Join(err, s.files.root.Remove(tmp))
	}
	if err := s.syncDir("."); err != nil {
		return wrap(string(listing.Key), err)
	}
	return nil
}

// listed yields all objects to be listed, sorted by key. An object at the path of its key
// precedes an entry of elsewhere with the same key, which is left out.
func (s *Store) listed(ctx context.Context, elsewhere []listing.Object) iter.Seq2[listing.Object, error] {
	return func(yield func(listing.Object, error) bool) {
		for o, err := range origin.ListPrefixes(ctx, s, listing.Prefixes()) {
			for ; err == nil && len(elsewhere) > 0 && elsewhere[0].Key <= o.Key; elsewhere = elsewhere[1:] {
				if elsewhere[0].Key < o.Key && !yield(elsewhere[0], nil) {
					return
				}
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
		for _, o := range elsewhere {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// elsewhere returns the shards and xorbs that are not at the path of their key, sorted by key.
// They are those of found and those of an old listing that are unchanged.
func (s *Store) elsewhere(ctx context.Context, old []byte, found *Bare) ([]listing.Object, error) {
	byKey := map[names.Key]listing.Object{}
	paths, err := listing.DecodePaths(old)
	if err != nil && !errors.Is(err, codec.ErrCorrupt) {
		return nil, fmt.Errorf("%s: %w", listing.Key, err) // of a newer xetfs
	}
	for _, o := range paths {
		if s.stillThere(o) {
			byKey[o.Key] = o
		}
	}
	if found != nil {
		files, err := found.Files(ctx)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if k := f.key(); f.Err == nil && f.Kind != 0 && f.Path != string(k) {
				byKey[k] = listing.Object{
					Key: k, Size: f.Size, Modified: f.Modified,
					Path: listing.EscapePath(f.Path),
				}
			}
		}
	}
	all := make([]listing.Object, 0, len(byKey))
	for _, o := range byKey {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b listing.Object) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return all, nil
}

// stillThere reports whether the file of an object that is listed elsewhere is unchanged.
func (s *Store) stillThere(o listing.Object) bool {
	path, err := url.PathUnescape(o.Path)
	if err != nil {
		return false
	}
	info, err := s.files.root.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == o.Size && info.ModTime().Equal(o.Modified)
}

// key returns the key of the object in a file.
func (f *File) key() names.Key {
	if f.Kind == names.ShardKind {
		return names.ShardKey(f.Hash)
	}
	return names.XorbKey(f.Hash)
}

// Item returns the item of one object, as List does. Later reads are of this file or of a newer
// one.
func (s *Store) Item(ctx context.Context, k names.Key) (origin.Item, error) {
	if err := ctx.Err(); err != nil {
		return origin.Item{}, err
	}
	info, err := s.files.root.Lstat(string(k))
	if err == nil && !info.Mode().IsRegular() {
		err = iofs.ErrNotExist
	}
	if err != nil {
		return origin.Item{}, wrap(string(k), err)
	}
	s.files.dropOther(string(k), info)
	return origin.Item{Key: k, Size: info.Size(), Modified: info.ModTime()}, nil
}

// Item returns the item of one object, as List does.
func (s *ReadOnly) Item(ctx context.Context, k names.Key) (origin.Item, error) {
	return s.current().Item(ctx, k)
}

// Item returns the item of one object, as List does.
func (s *Bare) Item(ctx context.Context, k names.Key) (origin.Item, error) {
	f, err := s.lookup(ctx, k)
	if err != nil {
		return origin.Item{}, err
	}
	return origin.Item{Key: k, Size: f.Size, Modified: f.Modified}, nil
}
