package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/mountopts"
)

// programName returns the name of this program for a background process, which is no mount helper.
func programName() string {
	if mountopts.IsHelper(os.Args[0]) {
		return filepath.Join(filepath.Dir(os.Args[0]), "xetfs")
	}
	return os.Args[0]
}

// mountWords are the flags of mount that mount(8) passes.
type mountWords struct {
	options      []string
	sloppy, fake bool
}

// The names of the flags of mountWords.
const (
	optionsName = "options"
	sloppyName  = "sloppy"
	fakeName    = "fake"
)

func isMountWord(flag string) bool {
	return flag == optionsName || flag == sloppyName || flag == fakeName
}

func (o *mountWords) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.options, optionsName, "o", nil, "flags and options of mount(8) as `NAME[=VALUE],…`")
	f.BoolVar(&o.sloppy, sloppyName, false, "ignore unknown names in --options")
	f.BoolVar(&o.fake, fakeName, false, "check all arguments, and mount nothing")
	for _, name := range []string{sloppyName, fakeName} {
		if err := f.MarkHidden(name); err != nil {
			panic(err) // no such flag
		}
	}
}

// apply sets the flags that --options and a SYMBOL among the arguments name. It returns SOURCE and
// MOUNTPOINT.
func (o *mountWords) apply(cmd *cobra.Command, args []string) ([]string, error) {
	if err := o.setFlags(cmd); err != nil {
		return nil, usageError{err}
	}
	if len(args) == 2 {
		return args, nil
	}
	if isGiven(cmd.Flags().Lookup("symbol")) {
		return nil, usageError{fmt.Errorf("%q is one argument too many: --symbol names the symbol", args[1])}
	}
	if err := cmd.Flags().Set("symbol", args[1]); err != nil {
		return nil, flagError(cmd, err)
	}
	return []string{args[0], args[2]}, nil
}

// setFlags sets the flags that --options name.
func (o *mountWords) setFlags(cmd *cobra.Command) error {
	for _, text := range o.options {
		options, err := mountopts.Split(text)
		if err == nil {
			options, err = mountopts.Resolve(options, mountFlagNames(cmd), o.sloppy)
		}
		if err != nil {
			return err
		}
		for _, option := range options {
			if err := setFlag(cmd, option); err != nil {
				return fmt.Errorf("-o %s: %w", option.Name, err)
			}
		}
	}
	return nil
}

// mountFlagNames returns the flags that --options may name.
func mountFlagNames(cmd *cobra.Command) (names []string) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && f.Name != printSettings && !isMountWord(f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

// setFlag sets the flag of an option. A flag that is a switch needs no value.
func setFlag(cmd *cobra.Command, option mountopts.Option) error {
	flag := cmd.Flags().Lookup(option.Name)
	value := option.Value
	switch {
	case option.HasValue:
	case flag.NoOptDefVal == "":
		return errors.New("needs a value: " + option.Name + "=" + flag.Value.Type())
	default:
		value = flag.NoOptDefVal
	}
	err := cmd.Flags().Set(option.Name, value)
	delete(flag.Annotations, ofVariable) // it precedes the variable
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return fmt.Errorf("%q: %w", value, errors.Unwrap(invalid))
	}
	return err
}
