package origin

import (
	"context"
	"errors"
)

// A Watching is a store that reports each put and delete, by any process, without a call.
type Watching interface {
	// Watch returns a channel that receives a value soon after objects under one of the
	// prefixes were put or deleted. One value may report many changes, and a value without a
	// change is allowed. The channel is closed when ctx ends, or earlier when the store can no
	// longer report changes. The error is errors.ErrUnsupported if the store cannot report
	// changes at all, or else the present obstacle.
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
