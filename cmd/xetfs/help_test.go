package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/manual"
)

// The bounds of a help text on a small terminal.
const (
	maxHelpLines   = 50
	maxHelpColumns = 80
)

// allCommands returns the program and every command that its help lists, with those of cobra.
func allCommands() []*cobra.Command {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	all := []*cobra.Command{root}
	for i := 0; i < len(all); i++ {
		for _, sub := range all[i].Commands() {
			if !sub.Hidden {
				all = append(all, sub)
			}
		}
	}
	return all
}

// isCobras reports whether package cobra wrote the texts of a command.
func isCobras(cmd *cobra.Command) bool {
	return strings.HasPrefix(cmd.CommandPath(), "xetfs completion")
}

// TestHelp checks the bounds of each help text, and that it has every flag.
func TestHelp(t *testing.T) {
	for _, cmd := range allCommands() {
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			text := helpText(cmd, maxHelpColumns)
			if n := strings.Count(text, "\n"); n > maxHelpLines {
				t.Errorf("help has %d lines, %d are allowed", n, maxHelpLines)
			}
			for i, line := range strings.Split(text, "\n") {
				if n := utf8.RuneCountInString(line); n > maxHelpColumns {
					t.Errorf("line %d has %d columns, %d are allowed: %s", i+1, n, maxHelpColumns, line)
				}
			}
			if !isCobras(cmd) && (cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, cmd.Name())) {
				t.Error("help lacks its purpose, or an example with the command")
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && (f.Usage == "" || !strings.Contains(text, "--"+f.Name)) {
					t.Errorf("help lacks --%s", f.Name)
				}
			})
		})
	}
}

// TestHelpGroups checks that every command of the program is in a group.
func TestHelpGroups(t *testing.T) {
	root := newRoot()
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" && !cmd.Hidden {
			t.Errorf("%s is in no group; add it to addCommands", cmd.Name())
		}
	}
}

// topicNames are the topics that must exist. The folder may have more.
var topicNames = strings.Fields("versions cache statistics environment exit-status fstab containers hpc operations python semantics troubleshooting")

// TestTopics checks the form of all topics, and that every reference to a topic leads to one.
func TestTopics(t *testing.T) {
	all := topics()
	for _, name := range topicNames {
		if !slices.Contains(all, name) {
			t.Errorf("topic %s is absent", name)
		}
	}
	for _, name := range all {
		text := manual.Text(topic(name), maxHelpColumns)
		if manual.Title(topic(name)) == "" {
			t.Errorf("topic %s has no title", name)
		}
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > maxHelpColumns {
				t.Errorf("topic %s, line %d of its text has %d columns: %s", name, i+1, n, line)
			}
		}
		wantTopics(t, "topic "+name, text)
	}
	for _, cmd := range allCommands() {
		wantTopics(t, cmd.CommandPath(), helpText(cmd, 1000))
	}
}

// wantTopics checks that each "xetfs help NAME" in a text names a topic or a command.
func wantTopics(t *testing.T, where, text string) {
	t.Helper()
	words := strings.Fields(text)
	for i := range words {
		if i < 2 || strings.TrimLeft(words[i-2], "(") != "xetfs" || words[i-1] != "help" {
			continue
		}
		name := strings.Trim(words[i], ".,;:)")
		_, err := commandAt(newRoot(), []string{name})
		if strings.ToUpper(name) != name && topic(name) == nil && err != nil {
			t.Errorf("%s: xetfs help %s is neither a topic nor a command", where, name)
		}
	}
}

// TestManPages checks that each command has a page with all of its flags. The page of the mount
// helper has the flags of mount, and each topic has a page.
func TestManPages(t *testing.T) {
	pages := map[string]string{}
	for _, page := range manPages(newRoot()) {
		pages[page.File()] = page.Man()
	}
	for _, cmd := range allCommands() {
		if isCobras(cmd) {
			continue
		}
		wantFlags(t, cmd, pages, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		if cmd.Name() == "mount" {
			wantFlags(t, cmd, pages, "mount.xetfs.8")
		}
	}
	for _, name := range topics() {
		if pages["xetfs-"+name+".7"] == "" {
			t.Errorf("topic %s has no page", name)
		}
	}
}

// wantFlags checks that the page in a file has all flags of a command.
func wantFlags(t *testing.T, cmd *cobra.Command, pages map[string]string, file string) {
	t.Helper()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !strings.Contains(pages[file], `\-\-`+strings.ReplaceAll(f.Name, "-", `\-`)) {
			t.Errorf("%s lacks --%s", file, f.Name)
		}
	})
}
