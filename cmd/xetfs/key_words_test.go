package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

func TestNotesNameNoKeys(t *testing.T) {
	var out strings.Builder
	newNotes(&out, "xetfs ls").Warn("no answer", "err", fmt.Errorf("%q: refused", names.SettingsKey()))
	if want := "xetfs ls: no answer err=the settings of the catalog: refused\n"; out.String() != want {
		t.Errorf("%q; want %q", out.String(), want)
	}
}

func TestKeysInWords(t *testing.T) {
	xorb := codec.Hash{1}
	for _, tt := range []struct{ text, want string }{
		{string(names.SettingsKey()) + ": no", "the settings of the catalog: no"},
		{fmt.Sprintf("s: %q: no", names.SettingsKey()), "s: the settings of the catalog: no"},
		{fmt.Sprintf("%q: no", names.RefKey("org/model")), "reference org/model: no"},
		{fmt.Sprintf("%q: no", names.SnapshotKey("a b")), "snapshot a b: no"},
		{fmt.Sprintf("xorb %s: %q: no", xorb, names.XorbKey(xorb)), fmt.Sprintf("xorb %s: no", xorb)},
		{fmt.Sprintf("%s: %q: no", names.ShardKey(xorb), names.ShardKey(xorb)), fmt.Sprintf("shard %s: no", xorb)},
		{"a/tindex/81: cref/x", "a/tindex/81: cref/x"},
		{`"tdata/shard": no`, `"tdata/shard": no`},
	} {
		if got := keysInWords(tt.text); got != tt.want {
			t.Errorf("%s became %s, want %s", tt.text, got, tt.want)
		}
	}
}

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
