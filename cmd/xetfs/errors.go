package main

import (
	"errors"
	iofs "io/fs"
	"os"
)

// The exit statuses of all commands.
const (
	exitGood        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 4
	exitNotAllowed  = 5
	exitDamage      = 6
	exitMount       = 7
	exitBeaten      = 8
	exitIncomplete  = 9
	exitInterrupted = 130 // by SIGINT
	exitTerminated  = 143 // by SIGTERM
)

// A usageError reports a wrong command line, before any change.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// A mountError is the reason why a mount failed.
type mountError struct{ error }

func (e mountError) Unwrap() error { return e.error }

// A statusError is an error that has been reported elsewhere: only its status is left.
type statusError int

func (statusError) Error() string { return "reported" }

// A nothingThere is a sentence about an absent argument.
type nothingThere string

func (e nothingThere) Error() string { return string(e) }

// Is makes it io/fs.ErrNotExist.
func (nothingThere) Is(target error) bool { return target == iofs.ErrNotExist } //nolint:errorlint // as package errors asks for it

// sentence is the text of err. An error of the os package names the system call first,
// which means nothing to the user: the path and the reason are enough.
func sentence(err error) string {
	var path *os.PathError
	if errors.As(err, &path) && error(path) == err { //nolint:errorlint // only if nothing was added to it
		return path.Path + ": " + path.Err.Error()
	}
	return err.Error()
}
