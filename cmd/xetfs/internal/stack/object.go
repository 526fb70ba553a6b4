package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// An Object is one object of a remote store, for reading from start to end.
type Object struct {
	io.ReaderAt
	Size  int64
	store ReadStore
}

// Close closes the store.
func (o *Object) Close() { o.store.Close() }

// OpenObject opens the object at an address, which is that of a store and a key.
func OpenObject(ctx context.Context, address string, remote Remote) (*Object, error) {
	source, key, ok := splitKey(address)
	if !ok {
		return nil, ArgumentError{fmt.Errorf("%s: does not end with the key of an object, such as tdata/shard/07/0706….shard", WithoutSecrets(address))}
	}
	s, err := OpenRemote(source, remote)
	if err != nil {
		return nil, err
	}
	size, err := s.Size(ctx, key)
	if errors.Is(err, origin.ErrNotFound) {
		err = fmt.Errorf("%s: %w", key, iofs.ErrNotExist)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return &Object{origin.SequentialReader(ctx, s, key, size), size, s}, nil
}

// splitKey splits an address into a store and the longest key at its end.
func splitKey(address string) (source string, k names.Key, ok bool) {
	for i := 0; i < len(address); i++ {
		if address[i] != '/' {
			continue
		}
		if _, err := names.ParseKey(names.Key(address[i+1:])); err == nil {
			return strings.TrimRight(address[:i], "/"), names.Key(address[i+1:]), true
		}
	}
	return "", "", false
}
