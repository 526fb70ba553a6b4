package report

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A ResultError is the result of a command that has already named every place. Package main
// maps it to an exit status and prints no message.
type ResultError string

const (
	ErrDamage     ResultError = "content is damaged"
	ErrAbsent     ResultError = "objects are missing or cannot be read"
	ErrIncomplete ResultError = "the result lacks paths of a folder"
)

func (e ResultError) Error() string { return string(e) }

// IsShortage reports whether err is a lack of memory or descriptors of the machine or of this
// process. Such an error is no property of the object that was read.
func IsShortage(err error) bool {
	var local *origin.LocalError
	if errors.As(err, &local) {
		err = local.Err
	}
	return ui.IsNoDescriptor(err) || errors.Is(err, unix.ENOMEM)
}
