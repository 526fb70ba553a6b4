package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// off is the word for a flag that switches something off.
const off = "off"

// fixedValues lets the shell complete the values of a flag.
func fixedValues(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // no such flag
	}
}

// seeKey is the annotation of a command with the names of the topics that continue its help.
const seeKey = "see"

// see returns the annotation of a command whose help names some topics.
func see(topics ...string) map[string]string {
	return map[string]string{seeKey: strings.Join(topics, " ")}
}

// singleWriterName is the flag of commands that may write to a bucket.
const singleWriterName = "single-writer"

// singleWriterFlag adds --single-writer, which writerOptions reads.
func singleWriterFlag(cmd *cobra.Command) {
	cmd.Flags().Bool(singleWriterName, false, "allow a bucket that ignores conditional writes")
}

// listingName is the flag of commands that add files to a bucket.
const listingName = "listing"

// listingFlag adds --listing, which writesListing reads.
func listingFlag(cmd *cobra.Command) {
	cmd.Flags().Bool(listingName, false, "make xetfs.list in a bucket, for plain web servers")
}

// writesListing reports whether --listing is given.
func writesListing(cmd *cobra.Command) bool {
	given, _ := cmd.Flags().GetBool(listingName) // false without the flag
	return given
}

// noticesOf returns a function that prints a line of a command on standard error.
func noticesOf(cmd *cobra.Command) func(text string) {
	return func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), text)) }
}

// noticeLogger returns a logger whose warnings are lines of a command on standard error.
func noticeLogger(cmd *cobra.Command) *slog.Logger {
	return slog.New(ui.NewNoticeHandler(cmd.ErrOrStderr(), cmd.CommandPath(), names.InWords))
}

// progressName is the flag of commands that show their progress.
const progressName = "progress"

// progressFlag adds --progress, which newProgress reads.
func progressFlag(cmd *cobra.Command) {
	type mode = choice[ui.ProgressMode]
	f := newEnum("HOW", mode{"auto", ui.ProgressAuto}, mode{"lines", ui.ProgressLines}, mode{"json", ui.ProgressJSON}, mode{"none", ui.ProgressNone})
	f.add(cmd, progressName, "on standard error: auto (a bar, or lines without a terminal), lines, json, none")
}

// newProgress returns the progress of a command with --progress.
func newProgress(cmd *cobra.Command, what string) *ui.Progress {
	mode := ui.ProgressAuto
	if f := cmd.Flags().Lookup(progressName); f != nil {
		mode = f.Value.(*enumFlag[ui.ProgressMode]).value
	}
	return ui.NewProgress(cmd.ErrOrStderr(), cmd.CommandPath(), what, mode)
}

// bareFlag adds --bare.
func bareFlag(cmd *cobra.Command, bare *bool) {
	cmd.Flags().BoolVar(bare, "bare", false, "ignore the catalog; show files by hash")
}

func strictFlag(cmd *cobra.Command, strict *bool) {
	cmd.Flags().BoolVar(strict, "strict", false, "return no byte before its file is proven (hf://)")
}

// A choice is one word of an enumFlag, and what it means.
type choice[T any] struct {
	word  string
	value T
}

// An enumFlag is a flag with one of a few words. It implements pflag.Value.
type enumFlag[T any] struct {
	choice[T]
	given   bool
	kind    string // placeholder in the help
	choices []choice[T]
}

// newEnum returns a flag whose default is the first choice.
func newEnum[T any](kind string, choices ...choice[T]) enumFlag[T] {
	return enumFlag[T]{choice: choices[0], kind: kind, choices: choices}
}

// add adds the flag to a command. The shell completes its words.
func (f *enumFlag[T]) add(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(f, name, usage)
	fixedValues(cmd, name, f.words()...)
}

func (f *enumFlag[T]) words() (words []string) {
	for _, c := range f.choices {
		words = append(words, c.word)
	}
	return words
}

// Set implements pflag.Value.
func (f *enumFlag[T]) Set(text string) error {
	for _, c := range f.choices {
		if c.word == text {
			f.choice, f.given = c, true
			return nil
		}
	}
	return fmt.Errorf("want %s", ui.AnyOf(f.words()))
}

// String implements pflag.Value.
func (f *enumFlag[T]) String() string { return f.word }

// Type implements pflag.Value.
func (f *enumFlag[T]) Type() string { return f.kind }

// An optional is a flag with a parsed value that may be absent. It implements pflag.Value.
type optional[T any] struct {
	value T
	text  string // of value; "": absent
	kind  string // placeholder in the help
	parse func(text string) (T, error)
}

// newOptional returns a flag with a default, or "" for none. The parser must accept the text
// that fmt.Sprint returns for a value, because a background mount gets its flags so.
func newOptional[T any](kind, def string, parse func(text string) (T, error)) optional[T] {
	f := optional[T]{kind: kind, parse: parse}
	if def != "" {
		if err := f.Set(def); err != nil {
			panic(err) // a default that the parser refuses
		}
	}
	return f
}

// given reports whether the flag has a value.
func (f *optional[T]) given() bool { return f.text != "" }

// pointer returns the value, or nil if it is absent.
func (f *optional[T]) pointer() *T {
	if !f.given() {
		return nil
	}
	return &f.value
}

// Set implements pflag.Value.
func (f *optional[T]) Set(text string) error {
	value, err := f.parse(text)
	if err != nil {
		return err
	}
	f.value, f.text = value, fmt.Sprint(value)
	return nil
}

// String implements pflag.Value.
func (f *optional[T]) String() string { return f.text }

// Type implements pflag.Value.
func (f *optional[T]) Type() string { return f.kind }

// ofVariable is the annotation of a flag with the name of the variable that has set it, if any.
const ofVariable = "xetfs_variable"

// sourceOf returns what has set a flag: flag for the command line, a variable, or default.
func sourceOf(f *pflag.Flag) string {
	switch variable := f.Annotations[ofVariable]; {
	case variable != nil:
		return variable[0]
	case f.Changed:
		return "flag"
	}
	return "default"
}

// nameOf names a flag for an error: by the variable that has set it, or as on the command line.
func nameOf(f *pflag.Flag) string {
	if variable := f.Annotations[ofVariable]; variable != nil {
		return variable[0]
	}
	return "--" + f.Name
}

// isGiven reports whether a flag is on the command line.
func isGiven(f *pflag.Flag) bool { return sourceOf(f) == "flag" }
