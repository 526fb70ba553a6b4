package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sampleValues are values that differ from the default, by the placeholder of a flag. The words of
// an enumFlag need no row.
var sampleValues = map[string]string{
	"bool": "true", "DIR": "/d", "DURATION": "30s", "LEVEL": "warn", "NAME": ".old", "NUMBER": "7", "RATE": "7MB", "SHARE": "5%",
	"SIZE": "7GiB", "START-END": "2-9", "SYMBOL[@AS_OF]": "org/model@3", "T": "2026-03-01", "URL": "https://h:1", "duration": "30s", "int": "7",
	"string": "word", "stringArray": "word", "uint64": "7",
}

// sampleOf returns a value for a flag.
func sampleOf(t *testing.T, f *pflag.Flag) string {
	t.Helper()
	if enum, ok := f.Value.(interface{ words() []string }); ok {
		words := enum.words()
		return words[len(words)-1]
	}
	value, ok := sampleValues[f.Value.Type()]
	if !ok {
		t.Fatalf("no sample for the type %s", f.Value.Type())
	}
	return value
}

// parsedValue returns the value of a flag after a command has parsed its arguments.
func parsedValue(t *testing.T, path []string, name string, parse func(cmd *cobra.Command) error) string {
	t.Helper()
	cmd, err := commandAt(newRoot(), path)
	if err == nil {
		err = parse(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Flags().Lookup(name).Value.String()
}

// TestFlagTable checks each flag of each command. Its variable has the same effect and is in the man
// page. For a flag of mount, the option of the mount helper has the same effect, too.
func TestFlagTable(t *testing.T) {
	pages := map[string]string{}
	for _, page := range manPages(newRoot()) {
		pages[page.File()] = page.Man()
	}
	for _, cmd := range allCommands() {
		if isCobras(cmd) {
			continue
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		for f := range settings(cmd) {
			t.Run(strings.Join(path, " ")+" --"+f.Name, func(t *testing.T) {
				value, variable := sampleOf(t, f), variableOf(cmd, f)
				want := parsedValue(t, path, f.Name, func(cmd *cobra.Command) error {
					return cmd.ParseFlags([]string{"--" + f.Name + "=" + value})
				})
				if want == f.DefValue {
					t.Fatalf("%s is the default", value)
				}
				t.Setenv(variable, value)
				if got := parsedValue(t, path, f.Name, applyEnvironment); got != want {
					t.Errorf("%s=%s sets %q, the flag %q", variable, value, got, want)
				}
				if page := pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"]; !strings.Contains(page, variable) {
					t.Errorf("the man page lacks %s", variable)
				}
				if cmd.Name() == "mount" && !isMountWord(f.Name) {
					wantHelperOption(t, f.Name, value, want)
				}
			})
		}
	}
}

// wantHelperOption checks that the mount helper accepts a flag of mount, with _ for -.
func wantHelperOption(t *testing.T, flag, value, want string) {
	t.Helper()
	option := strings.ReplaceAll(flag, "-", "_") + "=" + value
	got := parsedValue(t, []string{"mount"}, flag, func(cmd *cobra.Command) error {
		words := mountWords{options: []string{option}}
		return words.setFlags(cmd)
	})
	if got != want {
		t.Errorf("-o %s sets %q, the flag %q", option, got, want)
	}
}

// TestTopicVariables compares the table of the topic with the flags of all commands.
func TestTopicVariables(t *testing.T) {
	commands := map[string][]string{}
	for _, cmd := range allCommands() {
		for f := range settings(cmd) {
			if !isCobras(cmd) {
				commands[variableOf(cmd, f)] = append(commands[variableOf(cmd, f)], strings.TrimPrefix(cmd.CommandPath(), "xetfs "))
			}
		}
	}
	var rows strings.Builder
	for _, variable := range slices.Sorted(maps.Keys(commands)) {
		slices.Sort(commands[variable])
		fmt.Fprintf(&rows, "| %s | %s |\n", variable, strings.Join(commands[variable], ", "))
	}
	_, table, _ := strings.Cut(topicSource(t, "environment"), "| variable of a flag | commands |\n| --- | --- |\n")
	if table != rows.String() {
		t.Errorf("the last table of the topic environment is not\n%s", rows.String())
	}
}
