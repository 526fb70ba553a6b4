package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// An error of a local store has a status of its own and names the next step.
func TestLocalErrors(t *testing.T) {
	for _, tt := range []struct {
		errno  error
		status int
		next   string
	}{
		{syscall.EMFILE, exitFailed, "allow more open files (ulimit -n)"},
		{syscall.ENOSPC, exitFailed, "free some space and try again"},
		{syscall.EROFS, exitFailed, "mount that file system for writing"},
		{syscall.EIO, exitFailed, "repair the disk or file system"},
		{syscall.EACCES, exitNotAllowed, "only its owner, or root, can give the permission"},
	} {
		err := fmt.Errorf("store: %w", &origin.LocalError{Path: string(names.SettingsKey()), Err: tt.errno})
		if !errors.Is(err, origin.ErrUnavailable) {
			t.Errorf("%v is not origin.ErrUnavailable", err)
		}
		if got := exitStatus(t.Context(), err); got != tt.status {
			t.Errorf("%v: exit status %d, want %d", err, got, tt.status)
		}
		want := "store: the settings of the catalog: " + tt.errno.Error() + "; " + tt.next
		if got := userText(err); got != want {
			t.Errorf("the user reads %q, want %q", got, want)
		}
	}
}

// A full or read-only disk names the next step, whatever the place: a temporary file, the disk cache, the
// output.
func TestFullDisk(t *testing.T) {
	for errno, step := range map[syscall.Errno]string{
		syscall.ENOSPC: "free some space and try again", syscall.EDQUOT: "free some space and try again",
		syscall.EROFS: "mount that file system for writing",
	} {
		for _, err := range []error{fmt.Errorf("store: %w", errno), &os.PathError{Op: "write", Path: "x", Err: errno}} {
			want := sentence(err) + "; " + step
			if got := userText(err); got != want {
				t.Errorf("the user reads %q, want %q", got, want)
			}
		}
	}
}
