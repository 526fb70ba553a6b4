package origin

import "context"

// A Located store is at a path that may hold another store later. A disk may be unmounted, and
// a folder deleted and restored.
type Located interface {
	// Relocate makes the store use the objects that are at its path now. If these differ from
	// those in use, accept checks them first, and Relocate returns its error. An empty path is
	// an error.
	Relocate(ctx context.Context, accept func(context.Context, Store) error) error
}

// Relocate is that of s, if it is Located.
func Relocate(ctx context.Context, s Store, accept func(context.Context, Store) error) error {
	if l, ok := s.(Located); ok {
		return l.Relocate(ctx, accept)
	}
	return nil
}
