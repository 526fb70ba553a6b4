package origin

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

func TestConcernsOneObject(t *testing.T) {
	local := func(err error) error { return &LocalError{Path: "a", Err: err} }
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{codec.Corrupt("xorb", 0, "short"), true},
		{ErrNotFound, true},
		{local(syscall.EIO), true},
		{local(errors.New("not a regular file")), true},
		{local(errors.New("path escapes from parent")), true},
		{local(syscall.EMFILE), false},
		{local(syscall.ENFILE), false},
		{local(syscall.ENOMEM), false},
		{local(syscall.EACCES), false},
		{ErrUnavailable, false},
		{fmt.Errorf("%w: %w", ErrUnavailable, ErrNotFound), false},
		{iofs.ErrPermission, false},
		{context.Canceled, false},
		{syscall.ENOSPC, false}, // of a target
	} {
		if got := ConcernsOneObject(fmt.Errorf("xorb: %w", tt.err)); got != tt.want {
			t.Errorf("%v: %t", tt.err, got)
		}
	}
}
