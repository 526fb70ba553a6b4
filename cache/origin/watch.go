package origin

import (
	"context"
	"errors"
)

// A Watching is a store that says by itself when something is put or deleted, by whomever.
type Watching interface {
	// Watch returns a channel that gets a value soon after objects whose keys begin with one
	// of the prefixes were put or deleted; maybe also when nothing was, and one for many. It is
	// closed when ctx ends, and before that if the store can tell no longer. The error is
	// errors.ErrUnsupported if it cannot tell at all, or what is in the way just now.
	Watch(ctx context.Context, prefixes ...string) (<-chan struct{}, error)
}

// Watch is that of s, if it is Watching.
func Watch(ctx context.Context, s any, prefixes ...string) (<-chan struct{}, error) {
	w, ok := s.(Watching)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return w.Watch(ctx, prefixes...)
}
