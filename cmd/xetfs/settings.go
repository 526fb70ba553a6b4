package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// variablePrefix begins the environment variables of flags.
const variablePrefix = "XETFS_"

// otherVariables are the variables of xetfs that are no flags.
var otherVariables = []string{"XETFS_TOKEN_FILE", "XETFS_S3_STYLE"}

// variableOf returns the environment variable of a flag. A variable of otherVariables has its own
// meaning, so a flag with that name has the command in its variable.
func variableOf(cmd *cobra.Command, f *pflag.Flag) string {
	name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	if slices.Contains(otherVariables, variablePrefix+name) {
		name = strings.ToUpper(cmd.Name()) + "_" + name
	}
	return variablePrefix + name
}

// isSetting reports whether a flag has an environment variable.
func isSetting(f *pflag.Flag) bool {
	return !f.Hidden && f.Name != "help" && f.Name != "version" && f.Name != printSettings
}

// settings yields the flags of a command that have environment variables.
func settings(cmd *cobra.Command) iter.Seq[*pflag.Flag] {
	return func(yield func(*pflag.Flag) bool) {
		more := true
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if more && isSetting(f) {
				more = yield(f)
			}
		})
	}
}

// applyEnvironment sets the flags that are not on the command line to the values of their
// variables. An empty variable counts as absent. A variable that is almost the name of another
// one gets a notice.
func applyEnvironment(cmd *cobra.Command) error {
	sources := map[string]string{}
	for f := range settings(cmd) {
		variable := variableOf(cmd, f)
		value := os.Getenv(variable)
		switch {
		case f.Changed:
			sources[f.Name] = "flag"
		case value == "":
			sources[f.Name] = "default"
		default:
			if err := cmd.Flags().Set(f.Name, value); err != nil {
				return usageError{fmt.Errorf("%s=%s: %w", variable, ui.ShellWord(value), valueError(f, err))}
			}
			sources[f.Name] = variable
			f.Annotations = map[string][]string{ofVariable: nil}
		}
	}
	for _, text := range misspelled(cmd, os.Environ()) {
		noticesOf(cmd)(text)
	}
	if given, _ := cmd.Flags().GetBool(printSettings); given { // false without the flag
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return writeSettings(cmd.OutOrStdout(), cmd, sources) }
	}
	return nil
}

// valueError returns the reason in an error of pflag, without the name of the flag.
func valueError(f *pflag.Flag, err error) error {
	if want := wantedOf[f.Value.Type()]; want != "" {
		return errors.New("want " + want)
	}
	return cmp.Or(errors.Unwrap(err), err)
}

// misspelled returns a notice for each variable that is almost the name of a known one.
func misspelled(cmd *cobra.Command, environment []string) (notices []string) {
	known := slices.Clone(otherVariables)
	for c := range commandsOf(cmd.Root()) {
		for f := range settings(c) {
			known = append(known, variableOf(c, f))
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for _, line := range environment {
		name, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, variablePrefix) || value == "" || slices.Contains(known, name) {
			continue
		}
		if similar := hint.Closest(name, slices.Values(known)); len(similar) > 0 {
			notices = append(notices, fmt.Sprintf("the environment variable %s has no effect; did you mean %s?", ui.Printable(name), ui.AnyOf(similar)))
		}
	}
	return notices
}

// commandsOf yields a command and all commands below it.
func commandsOf(cmd *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) { visitCommands(cmd, yield) }
}

func visitCommands(cmd *cobra.Command, yield func(*cobra.Command) bool) bool {
	if !yield(cmd) {
		return false
	}
	for _, sub := range cmd.Commands() {
		if !visitCommands(sub, yield) {
			return false
		}
	}
	return true
}

// writeSettings prints the settings of a command: name, value, source. Addresses have no secrets.
func writeSettings(w io.Writer, cmd *cobra.Command, sources map[string]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for f := range settings(cmd) {
		value := f.Value.String()
		if strings.Contains(value, "://") {
			value = stack.WithoutSecrets(value)
		}
		fmt.Fprintf(table, "--%s\t%s\t%s\n", f.Name, cmp.Or(ui.Printable(value), "-"), sources[f.Name])
	}
	return table.Flush()
}
