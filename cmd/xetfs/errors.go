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
	exitConflict    = 8
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

// A pathError is about a path of the user that may look like a key. No part of it becomes words.
type pathError struct{ error }

func (e pathError) Error() string { return sentence(e.error) }

func (e pathError) Unwrap() error { return e.error }

// A statusError is the exit status of an error that has been reported elsewhere.
type statusError int

func (statusError) Error() string { return "reported" }

// A notFoundError is a message about a missing argument. It is io/fs.ErrNotExist.
type notFoundError string

func (e notFoundError) Error() string { return string(e) }

// Is implements errors.Is.
func (notFoundError) Is(target error) bool { return target == iofs.ErrNotExist } //nolint:errorlint // required by package errors

// sentence returns the text of err. The text of an error of the os package begins with a system
// call, which means nothing to a user. Path and reason are enough.
func sentence(err error) string {
	var path *os.PathError
	if errors.As(err, &path) && error(path) == err { //nolint:errorlint // only if nothing was added to it
		return path.Path + ": " + path.Err.Error()
	}
	return err.Error()
}
