package upload

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
)

// Kinds of errors that a caller can act on. Their texts are for the user of a client.
var (
	// ErrRefused means that a body violates the format or disagrees with the stored data.
	ErrRefused = errors.New("refused")

	// ErrTooLarge means that a body exceeds its limit.
	ErrTooLarge = errors.New("too large")

	// ErrBusy means that too many uploads run; the client should try again later.
	ErrBusy = errors.New("too many uploads run at the moment; try again later")

	// ErrFull means that the store or its disk has no room.
	ErrFull = errors.New("the store is full")
)

// A LeaseError reports that data of files no longer exists, because a lease expired and a sweep
// deleted the data. The client must upload the files again.
type LeaseError struct{ Files []Content }

// Error implements error.
func (e *LeaseError) Error() string {
	return fmt.Sprintf("data of %d files was deleted since the upload; upload these files again", len(e.Files))
}

// uploadAgain is the advice for a client that refers to lost data. The cache of hf_xet would name the
// data again.
const uploadAgain = "remove the cache of the client (~/.cache/huggingface/xet) and upload the file again"

// refuse returns an ErrRefused with a reason.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// full turns the error of a full disk into ErrFull.
func full(err error) error {
	var local *origin.LocalError
	cause := err
	if errors.As(err, &local) {
		cause = local.Err
	}
	if errors.Is(cause, unix.ENOSPC) || errors.Is(cause, unix.EDQUOT) {
		return fmt.Errorf("%w: the disk of the server has no room", ErrFull)
	}
	return err
}
