package main

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// flagError makes the error of a flag a usageError without words of the Go library, and
// names the flag that may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	var (
		invalid *pflag.InvalidValueError
		unknown *pflag.NotExistError
	)
	switch {
	case errors.As(err, &unknown) && oneDash(cmd, unknown) != "":
		long := oneDash(cmd, unknown)
		err = fmt.Errorf("unknown flag: -%s; did you mean --%s?", long, long)
	case errors.As(err, &unknown):
		if similar := similarFlags(cmd, unknown); similar != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, similar)
		}
	case errors.As(err, &invalid):
		if want := wantedOf[invalid.GetFlag().Value.Type()]; want != "" {
			err = fmt.Errorf("invalid argument %q for \"--%s\" flag: want %s", invalid.GetValue(), invalid.GetFlag().Name, want)
		}
	}
	return usageError{err}
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

// oneDash returns the name of a long flag that was typed with one dash, such as -help. The
// first letters of that flag are flags of their own. The result is "" without such a flag.
func oneDash(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	left := unknown.GetSpecifiedShortnames() // without the letters that were taken as flags
	found := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		letters, ok := strings.CutSuffix(f.Name, left)
		if f.Hidden || !ok || len(left) < 2 {
			return
		}
		for _, letter := range letters {
			if cmd.Flags().ShorthandLookup(string(letter)) == nil {
				return
			}
		}
		found = f.Name
	})
	return found
}

// wantedOf describes the values of the flag types of package pflag. The other flag types are in
// this module, and their errors describe the values.
var wantedOf = map[string]string{
	"bool":     "true or false",
	"int":      "a number",
	"uint64":   "a number, 0 or more",
	"duration": "a duration like 500ms, 15s or 2m",
}

// similarFlags names the flags of a command that may have been meant by an unknown one.
func similarFlags(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		known = append(known, "--"+f.Name)
		if f.Shorthand != "" {
			known = append(known, "-"+f.Shorthand)
		}
	})
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short == "" {
		return ui.AnyOf(hint.Closest("--"+name, slices.Values(known)))
	} else if len(short) > 1 && slices.Contains(known, "--"+short) {
		return "--" + short // a flag with one dash too few
	}
	for _, k := range known {
		if strings.EqualFold(k, "-"+name) {
			return k
		}
	}
	return ""
}
