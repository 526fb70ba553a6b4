package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
)

// A walk leaves a path out for one of four reasons.
//
//	leftOut       an option or xetfs itself left it out: named, exit status 0
//	kindError     no version can hold it, as a socket: skipped and named, 0
//	machineError  this machine failed, as with EIO: the command ends, 1
//	other errors  it is missing in the version, as with EACCES: named, 9

// A leftOut says why something is not taken, in words that follow its path.
type leftOut string

func (e leftOut) Error() string { return string(e) }

// A kindError says that something cannot be taken because of its kind.
type kindError struct{ error }

func (e kindError) Unwrap() error { return e.error }

// A machineError is an error that is not of one file. A version without the file would be
// wrong, so that there is none.
type machineError struct {
	path string // as the user calls it
	rel  string // below FOLDER; "": FOLDER itself
	err  error
	done string // the consequence for the command
}

func (e *machineError) Unwrap() error { return e.err }

func (e *machineError) Error() string {
	text := fmt.Sprintf("%s: %v: %s", e.path, e.err, e.done)
	if isNoDescriptor(e.err) {
		text += "; allow more open files (ulimit -n)"
	} else {
		text += "; repair the disk or file system"
	}
	if e.rel == "" {
		return text
	}
	return fmt.Sprintf("%s, or leave the path out: --exclude '/%s'", text, escapePattern(e.rel))
}

// escapePattern returns a pattern that fits a path and no other, between single quotes.
func escapePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `'`, `'\''`).Replace(path)
}

// fileErrors are the errors of system calls that say something of one file. All others,
// those that are not known here, too, are errors of the machine.
var fileErrors = []error{
	unix.EACCES, unix.EPERM, unix.ENOKEY, // no permission
	unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ESTALE, unix.ENODATA, // another process changed it
	unix.ENXIO, unix.ENODEV, // a socket or device in its place
	unix.EAGAIN, unix.ETXTBSY, // another process has it to itself
	unix.ENAMETOOLONG, unix.ERANGE, unix.E2BIG,
}

// isMachineError says whether err is an error of this machine.
func isMachineError(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	return !slices.Contains(fileErrors, error(errno))
}

// onlyMachine returns err if it is an error of this machine.
func onlyMachine(err error) error {
	if isMachineError(err) {
		return err
	}
	return nil
}

// isShortage says whether the machine, or a limit of this process, has too little of
// something. That says nothing of the object that was to be read.
func isShortage(err error) bool {
	var local *origin.LocalError
	if errors.As(err, &local) {
		err = local.Err
	}
	return isNoDescriptor(err) || errors.Is(err, unix.ENOMEM)
}

// isNoDescriptor says whether no further file could be opened.
func isNoDescriptor(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
