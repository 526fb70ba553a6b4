package main

import (
	"context"
	"errors"
	iofs "io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// resultStatus has the exit status of each result.
var resultStatus = map[ui.ResultError]int{
	ui.ErrDamage: exitDamage, ui.ErrAbsent: exitUnreachable, ui.ErrIncomplete: exitIncomplete,
}

// exitStatus returns the exit status of the program for the error of a command. A signal cancels
// ctx.
func exitStatus(ctx context.Context, err error) int {
	var (
		local    *origin.LocalError
		reported statusError
		result   ui.ResultError
		usage    usageError
		mount    mountError
		failed   *daemon.Error
		ended    *daemon.SignalError

		argument    stack.ArgumentError
		unmountable stack.MountError
	)
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &reported):
		return int(reported)
	case errors.As(err, &result):
		return resultStatus[result]
	case errors.As(err, &ended):
		return ended.Status()
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return interruptedStatus(ctx)
	case errors.As(err, &usage), errors.As(err, &argument), errors.Is(err, publish.ErrRemoveConflict):
		return exitUsage
	case errors.As(err, &mount), errors.As(err, &unmountable), errors.As(err, &failed):
		return exitMount
	case errors.Is(err, writer.ErrVersion), errors.Is(err, writer.ErrBusy), errors.Is(err, writer.ErrSwept), errors.Is(err, sweep.ErrOther):
		return exitConflict
	case errors.Is(err, iofs.ErrNotExist):
		return exitNotFound
	case errors.Is(err, iofs.ErrPermission):
		return exitNotAllowed
	case errors.Is(err, codec.ErrCorrupt):
		return exitDamage
	case errors.As(err, &local):
		if errors.Is(local.Err, iofs.ErrPermission) {
			return exitNotAllowed
		}
	case errors.Is(err, origin.ErrUnavailable), errors.Is(err, origin.ErrNotFound):
		return exitUnreachable
	}
	return exitFailed
}

// interruptedStatus returns the exit status for the signal that canceled ctx.
func interruptedStatus(ctx context.Context) int {
	var by daemon.Interruption
	if errors.As(context.Cause(ctx), &by) {
		return by.Status()
	}
	return exitInterrupted
}

// errorLine returns the message about err: one line, "xetfs COMMAND: …". It is empty if no
// message is due, for example because the log has it.
func errorLine(cmd *cobra.Command, err error, status int) string {
	inLog := errors.As(err, new(*daemon.SignalError))
	closedOutput := errors.Is(err, syscall.EPIPE) && !errors.As(err, new(*net.OpError))
	if err == nil || errors.As(err, new(statusError)) || errors.As(err, new(ui.ResultError)) || inLog || closedOutput {
		return ""
	}
	text := userText(err)
	switch status {
	case exitInterrupted, exitTerminated:
		text = "interrupted"
	case exitUsage:
		text += variablesOf(cmd, text) + "; usage: " + cmd.UseLine() + " (more: " + cmd.CommandPath() + " --help)"
	}
	return ui.Printable(cmd.CommandPath() + ": " + text)
}

// userText returns the text of err for a user. Keys of the store become words, except in a pathError. An error of a local
// store gets a next step, and so does a shortage or a read-only file system of this machine.
func userText(err error) string {
	text := sentence(err)
	if !errors.As(err, new(pathError)) {
		text = names.InWords(text)
	}
	var local *origin.LocalError
	switch {
	case strings.Contains(text, "; "):
	case errors.As(err, &local):
		text += nextStep(local.Err)
	case origin.IsShortage(err), isFull(err), errors.Is(err, unix.EROFS):
		text += nextStep(err)
	}
	return text
}

// withMissingPlace adds to the error of a command what to type if a local path among its
// arguments does not exist.
func withMissingPlace(cmd *cobra.Command, err error) error {
	var reported statusError
	if !errors.Is(err, iofs.ErrNotExist) || errors.As(err, &reported) {
		return err
	}
	text := hint.Missing(hint.Call{Command: cmd.CommandPath(), Usage: cmd.Use, Args: cmd.Flags().Args(), IsAddress: stack.IsAddress})
	if text == "" {
		return err
	}
	return &hintedError{err, text}
}

// A hintedError is an error with what to type.
type hintedError struct {
	err  error
	hint string // begins with "; "
}

func (e *hintedError) Error() string { return sentence(e.err) + e.hint }

func (e *hintedError) Unwrap() error { return e.err }

// isFull reports whether err is a full disk or quota.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// nextStep returns the next step after an error of the local machine, or "".
func nextStep(err error) string {
	switch {
	case ui.IsNoDescriptor(err):
		return "; allow more open files (ulimit -n)"
	case errors.Is(err, unix.ENOMEM):
		return "; free some memory and try again"
	case isFull(err):
		return "; free some space and try again"
	case errors.Is(err, unix.EROFS):
		return "; mount that file system for writing"
	case errors.Is(err, unix.EIO):
		return "; repair the disk or file system"
	case errors.Is(err, iofs.ErrPermission):
		return "; only its owner, or root, can give the permission"
	}
	return ""
}
