package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/manual"
)

// The sections of the manual.
const (
	commandSection = 1
	topicSection   = 7
	helperSection  = 8
)

// newMan returns the hidden command that writes the man pages for packages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the man pages",
		Hidden: true,
		Long: `Writes the man pages of all commands, of the mount helper and of all topics into FOLDER, which
must exist.`,
		Example: `  xetfs man /usr/local/share/man`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, page := range manPages(cmd.Root()) {
				if err := os.WriteFile(filepath.Join(args[0], page.File()), []byte(page.Man()), 0o666); err != nil { //nolint:gosec // for all users
					return err
				}
			}
			return nil
		},
	}
}

// manPages returns all man pages of the program.
func manPages(root *cobra.Command) (pages []manual.Page) {
	source, date := "xetfs "+readVersion().Version, buildDate()
	for _, cmd := range below(root) {
		pages = append(pages, manual.Page{
			Name: strings.ReplaceAll(cmd.CommandPath(), " ", "-"), Section: commandSection, Title: cmd.Short, Body: commandBody(cmd),
		})
	}
	mount, err := commandAt(root, []string{"mount"})
	if err != nil {
		panic(err) // the program has this command
	}
	pages = append(pages, manual.Page{
		Name: "mount.xetfs", Section: helperSection, Title: "Mount helper of xetfs for mount(8), fstab and systemd", Body: helperBody(mount),
	})
	for _, name := range topics() {
		blocks := topic(name)
		pages = append(pages, manual.Page{
			Name: "xetfs-" + name, Section: topicSection, Title: manual.Title(blocks), Body: blocks[1:],
		})
	}
	for i := range pages {
		pages[i].Source, pages[i].Date = source, date
	}
	return pages
}

// below returns a command and the visible commands below it, at any depth. The page of
// completion has all shells.
func below(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && cmd.Name() != "completion" {
			all = append(all, below(sub)...)
		}
	}
	return all
}

// unknownDay is the date of pages of a program without the time of its source.
const unknownDay = "1970-01-01"

// buildDate returns the day of the source, so that two builds of it have the same pages.
func buildDate() string {
	at := readVersion().Time
	if at == nil {
		return unknownDay
	}
	day, _, _ := strings.Cut(*at, "T")
	return day
}

// commandBody returns the text of the man page of a command.
func commandBody(cmd *cobra.Command) []manual.Block {
	text := "## Synopsis\n\n    " + cmd.UseLine() + "\n\n## Description\n\n" + cmd.Long + "\n\n"
	if subs := cmd.Commands(); len(subs) > 0 {
		text += "## Commands\n\n| | |\n| --- | --- |\n"
		for _, sub := range subs {
			if !sub.Hidden {
				text += manual.Row(sub.Name(), sub.Short)
			}
		}
	}
	text += "\n" + optionsText(cmd) + environmentText(cmd)
	if cmd.Example != "" {
		text += "\n## Examples\n\n" + cmd.Example + "\n"
	}
	return manual.Parse(text + "\n## See also\n\n" + seeAlso(cmd) + "\n")
}

// optionsText returns the section about the flags of a command.
func optionsText(cmd *cobra.Command) string {
	text := "## Options\n\n| | |\n| --- | --- |\n"
	for _, row := range flagRows(cmd) {
		text += manual.Row(strings.TrimSpace(row[0]), row[1])
	}
	return text
}

// environmentText returns the section about the variables of a command, or "".
func environmentText(cmd *cobra.Command) (text string) {
	for f := range settings(cmd) {
		text += manual.Row(variableOf(cmd, f), "--"+f.Name)
	}
	if text == "" {
		return ""
	}
	return "\n## Environment\n\nA variable sets an option that is not on the command line.\n\n| | |\n| --- | --- |\n" + text
}

// seeAlso returns the names of related man pages.
func seeAlso(cmd *cobra.Command) string {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-")+"(1)")
	}
	names := strings.Fields(cmd.Annotations[seeKey])
	if !cmd.HasParent() {
		names = topics()
	}
	for _, name := range append(names, "exit-status") {
		if page := "xetfs-" + name + "(7)"; !slices.Contains(pages, page) {
			pages = append(pages, page)
		}
	}
	return strings.Join(pages, ", ")
}

// helperBody returns the text of the man page of the mount helper.
func helperBody(mount *cobra.Command) []manual.Block {
	return manual.Parse(helperText + optionsText(mount) + "\n## See also\n\nxetfs-mount(1), xetfs-fstab(7), mount(8), fstab(5)\n")
}

const helperText = `## Synopsis

    mount -t xetfs [-o OPTIONS] SOURCE DIR
    mount.xetfs SOURCE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS]

## Description

The program mount(8) runs this helper for the type xetfs, and for the type fuse.xetfs. It mounts
SOURCE read-only at DIR and returns when files can be read. The process of the mount continues until
umount DIR.

Each option below is accepted in OPTIONS by its name without dashes, as in cache-size=10GiB. An
underscore is accepted for a dash within a name. A comma in a value follows a backslash, or is in
quotes.

`
