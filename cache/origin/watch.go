package origin

import (
	"context"
	"errors"
)

// A Watcher is a Store that reports each put and delete, by any process, without requests.
type Watcher interface {
	// Watch returns a channel that receives a value soon after objects under one of the
	// prefixes were put or deleted. One value may report many changes, and a value without a
	// change is allowed. The channel is closed when ctx ends, or earlier when the store can no
	// longer report changes. The error is errors.ErrUnsupported if the store cannot report
	// changes at all, or else the present obstacle.
	Watch(ctx context.Context, prefixes ...string) (<-chan struct{}, error)
}

// Watch calls Watch of s. The error is errors.ErrUnsupported if s is no Watcher.
func Watch(ctx context.Context, s any, prefixes ...string) (<-chan struct{}, error) {
	w, ok := s.(Watcher)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return w.Watch(ctx, prefixes...)
}
