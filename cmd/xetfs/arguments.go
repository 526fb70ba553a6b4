package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// arguments makes a wrong number of arguments a usageError that names what is wanted.
func arguments(least, most int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError{errors.New("too few arguments")}
		case len(args) > most:
			return usageError{fmt.Errorf("%q is one argument too many", args[most])}
		}
		return nil
	}
}

// knownCommand refuses a first word that is no command, and suggests a similar command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := ""
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", ui.AnyOf(similar))
	}
	return usageError{fmt.Errorf("%q is not a command%s", args[0], hint)}
}
