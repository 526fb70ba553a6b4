package origin

import "context"

// A Relocator is a Store at a path that may hold another store later. A disk may be unmounted,
// and a folder deleted and restored.
type Relocator interface {
	// Relocate makes the store use the objects that are at its path now. If these differ from
	// those in use, accept checks them first, and Relocate returns its error. An empty path is
	// an error.
	Relocate(ctx context.Context, accept func(context.Context, Store) error) error
}

// Relocate calls Relocate of s. It does nothing if s is no Relocator.
func Relocate(ctx context.Context, s Store, accept func(context.Context, Store) error) error {
	if r, ok := s.(Relocator); ok {
		return r.Relocate(ctx, accept)
	}
	return nil
}
