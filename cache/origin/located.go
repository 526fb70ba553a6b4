package origin

import "context"

// A Located store is at a place, a path, that may hold another store later: a disk was
// unmounted, or a folder was deleted and restored.
type Located interface {
	// Relocate makes the store use what is at its place now. If that is not what the store
	// uses already, accept checks it first, and its error is returned. An empty place is an
	// error.
	Relocate(ctx context.Context, accept func(context.Context, Store) error) error
}

// Relocate is that of s, if it is Located.
func Relocate(ctx context.Context, s Store, accept func(context.Context, Store) error) error {
	if l, ok := s.(Located); ok {
		return l.Relocate(ctx, accept)
	}
	return nil
}
