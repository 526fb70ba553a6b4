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
	"unicode"

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
	for f := range settings(cmd) {
		variable := variableOf(cmd, f)
		value := os.Getenv(variable)
		if f.Changed || value == "" {
			continue
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			return usageError{fmt.Errorf("%s=%s: %w", variable, ui.ShellWord(value), valueError(f, err))}
		}
		f.Annotations = map[string][]string{ofVariable: {variable}}
	}
	for _, text := range misspelled(cmd, os.Environ()) {
		noticesOf(cmd)(text)
	}
	if given, _ := cmd.Flags().GetBool(printSettings); given { // false without the flag
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return writeSettings(cmd.OutOrStdout(), cmd) }
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

// variablesOf names the variables that have set the flags in the text of an error, in parentheses.
func variablesOf(cmd *cobra.Command, text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) })
	var sources []string
	for f := range settings(cmd) {
		if f.Annotations[ofVariable] != nil && slices.Contains(words, "--"+f.Name) {
			sources = append(sources, "--"+f.Name+" is from "+nameOf(f))
		}
	}
	if len(sources) == 0 {
		return ""
	}
	return " (" + strings.Join(sources, ", ") + ")"
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
func writeSettings(w io.Writer, cmd *cobra.Command) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for f := range settings(cmd) {
		value := f.Value.String()
		if strings.Contains(value, "://") {
			value = stack.WithoutSecrets(value)
		}
		fmt.Fprintf(table, "--%s\t%s\t%s\n", f.Name, cmp.Or(ui.Printable(value), "-"), sourceOf(f))
	}
	return table.Flush()
}

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
