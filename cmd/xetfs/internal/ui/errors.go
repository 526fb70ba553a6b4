package ui

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
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

// Reason returns the cause of an error of the os package, without system call and path. The
// caller names the path in its own words.
func Reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// IsNoDescriptor reports whether the limit of open files is reached.
func IsNoDescriptor(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
