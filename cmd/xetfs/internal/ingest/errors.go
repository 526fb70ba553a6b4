package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A path is left out for one of four reasons.
//
//	leftOut       an option or xetfs itself left it out: Report.Note
//	KindError     no version can have it, as a socket: Report.Skip
//	other errors  it is missing in the version, as with EACCES: Report.Skip
//	MachineError  this machine failed, as with EIO: the Ingest ends

// A leftOut is the text behind the path of a note.
type leftOut string

func (e leftOut) Error() string { return string(e) }

// A KindError means that a path cannot be taken because of its kind.
type KindError struct{ error }

func (e KindError) Unwrap() error { return e.error }

// A PartialError means that a path is taken, except for a part of it.
type PartialError struct{ error }

func (e PartialError) Unwrap() error { return e.error }

// A MachineError is an error that concerns the machine, not one file. A version without the
// file would be wrong, so the Ingest ends.
type MachineError struct {
	Path        string // as the user calls it
	Rel         string // below the folder; "": the folder itself
	Err         error
	Consequence string // for the command
}

func (e *MachineError) Unwrap() error { return e.Err }

func (e *MachineError) Error() string {
	text := fmt.Sprintf("%s: %v: %s", e.Path, e.Err, e.Consequence)
	if ui.IsNoDescriptor(e.Err) {
		text += "; allow more open files (ulimit -n)"
	} else {
		text += "; repair the disk or file system"
	}
	if e.Rel == "" {
		return text
	}
	return fmt.Sprintf("%s, or leave the path out: --exclude '/%s'", text, escapePattern(e.Rel))
}

// escapePattern returns a pattern between single quotes that matches one path only.
func escapePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `'`, `'\''`).Replace(path)
}

// fileErrors are the errors of system calls that concern one file. All other errors, also
// unknown ones, are errors of the machine.
var fileErrors = []error{
	unix.EACCES, unix.EPERM, unix.ENOKEY, // no permission
	unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ESTALE, unix.ENODATA, // another process changed it
	unix.ENXIO, unix.ENODEV, // a socket or device in its place
	unix.EAGAIN, unix.ETXTBSY, // another process has exclusive use
	unix.ENAMETOOLONG, unix.ERANGE, unix.E2BIG,
}

// IsMachine reports whether err is an error of this machine.
func IsMachine(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	return !slices.Contains(fileErrors, error(errno))
}
