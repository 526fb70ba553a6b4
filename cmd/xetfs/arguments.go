package main

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// printSettings is the flag that prints all settings of a command.
const printSettings = "print-settings"

// settingsFlag adds --print-settings.
func settingsFlag(cmd *cobra.Command) {
	cmd.Flags().Bool(printSettings, false, "only print each setting and its source")
}

// arguments makes a wrong number of arguments a usageError that names what is wanted. With
// --print-settings they may be left out.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch onlyPrint, _ := cmd.Flags().GetBool(printSettings); { // false without the flag
		case len(args) < least && !onlyPrint:
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

// A target is SYMBOL[@AS_OF] on a command line.
type target struct {
	symbol string
	at     names.AsOf
}

// String is the inverse of parseTarget.
func (t target) String() string {
	if t.at == (names.AsOf{}) && !strings.Contains(t.symbol, "@") {
		return t.symbol
	}
	return t.symbol + "@" + t.at.String()
}

// parseTarget reads SYMBOL[@AS_OF]. A symbol or snapshot may have an @ in its name: the
// first one with a version behind it counts. The error is a usageError.
func parseTarget(text string) (target, error) {
	var first error
	for i := range len(text) {
		if text[i] != '@' {
			continue
		}
		at, err := names.ParseAsOf(text[i+1:])
		if err != nil {
			first = cmp.Or(first, fmt.Errorf("%s: %w", text, err))
			continue
		}
		return target{text[:i], at}, checkSymbol(text[:i])
	}
	if first != nil {
		return target{}, usageError{first}
	}
	return target{symbol: text}, checkSymbol(text)
}

// checkSymbol refuses invalid names of symbols with a usageError.
func checkSymbol(symbol string) error {
	if strings.Contains(symbol, "://") { // it may hold a password
		return usageError{errors.New("SYMBOL is a name, not an address; the store comes first")}
	}
	err := names.CheckSymbol(symbol)
	if err == nil {
		return nil
	}
	if clean := cleanPath(symbol); clean != symbol && names.CheckSymbol(clean) == nil && !strings.Contains("/"+symbol+"/", "/../") {
		err = fmt.Errorf("%w; type %s", err, ui.ShellWord(clean))
	}
	return usageError{err}
}

// notLive reports whether an error means that a symbol has no live version.
func notLive(err error) bool { return errors.Is(err, iofs.ErrNotExist) }

// checkSnapshot refuses invalid names of snapshots with a usageError.
func checkSnapshot(name string) error {
	if err := names.CheckSnapshot(name); err != nil {
		return usageError{err}
	}
	return nil
}

// cleanPath returns a path as the catalog spells it: "by-hash/x", "" for the top.
func cleanPath(p string) string {
	return strings.TrimPrefix(path.Clean("/"+p), "/")
}

// treePath returns cleanPath of a path that a user typed. It refuses a path that leads out of
// the tree: cleanPath would take ../x for x.
func treePath(p string) (string, error) {
	if rel := path.Clean(strings.TrimLeft(p, "/")); rel == ".." || strings.HasPrefix(rel, "../") {
		return "", usageError{fmt.Errorf("%s: leads out of the tree; a PATH begins at its top", p)}
	}
	return cleanPath(p), nil
}
