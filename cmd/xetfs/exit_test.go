package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

func TestExitStatus(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"good", t.Context(), nil, 0},
		{"good although a signal came", ended, nil, 0},
		{"failed", t.Context(), errors.New("x"), 1},
		{"damaged", t.Context(), codec.Corrupt("chunk", 0, "x"), 6},
		{"an object is missing", t.Context(), fmt.Errorf("x: %w", origin.ErrNotFound), 4},
		{"damaged, as an argument says", t.Context(), usageError{codec.Corrupt("hash", 0, "x")}, 2},
		{"wrong use", t.Context(), usageError{errors.New("x")}, 2},
		{"no such file", t.Context(), &os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, 3},
		{"no such name", t.Context(), fmt.Errorf("x: %w", iofs.ErrNotExist), 3},
		{"origin unreachable", t.Context(), fmt.Errorf("x: %w", origin.ErrUnavailable), 4},
		{"not allowed", t.Context(), &os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, 5},
		{"damage found", t.Context(), ui.ErrDamage, 6},
		{"not mounted", t.Context(), mountError{errors.New("x")}, 7},
		{"not mounted because of a missing file", t.Context(), mountError{syscall.ENOENT}, 7},
		{"another version than was asked for", t.Context(), fmt.Errorf("x: %w", writer.ErrVersion), 8},
		{"others were faster each time", t.Context(), fmt.Errorf("x: %w", writer.ErrBusy), 8},
		{"a sweep deleted what was to be reused", t.Context(), fmt.Errorf("x: %w", writer.ErrSwept), 8},
		{"another sweep", t.Context(), sweep.ErrOther, 8},
		{"objects of a catalog are missing", t.Context(), ui.ErrAbsent, 4},
		{"interrupted", t.Context(), fmt.Errorf("x: %w", context.Canceled), 130},
		{"interrupted in the middle of something", ended, errors.New("x"), 130},
		{"damage found before the interrupt", ended, ui.ErrDamage, 6},
		{"reported by the background process", t.Context(), statusError(3), 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := exitStatus(tt.ctx, tt.err); got != tt.want {
				t.Errorf("exitStatus(%v) = %d, want %d", tt.err, got, tt.want)
			}
		})
	}
}

// A closed standard output needs no message. A closed connection does.
func TestErrorLine_EPIPE(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, ""},
		{syscall.EPIPE, ""},
		{fmt.Errorf("s3://b: %w", &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}), "xetfs: s3://b: write tcp: write: broken pipe"},
	} {
		if got := errorLine(newRoot(), tt.err, exitFailed); got != tt.want {
			t.Errorf("the message about %v is %q, want %q", tt.err, got, tt.want)
		}
	}
}
