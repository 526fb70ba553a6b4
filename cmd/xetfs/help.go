package main

import (
	"embed"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/manual"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// topicFiles are the help topics, one file each.
//
//go:embed docs/*.md
var topicFiles embed.FS

// topics returns the names of all help topics, sorted.
func topics() (names []string) {
	files, err := topicFiles.ReadDir("docs")
	if err != nil {
		panic(err) // the folder is embedded
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".md"))
	}
	return names
}

// topic returns the text of a help topic, or nil if no topic has that name.
func topic(name string) []manual.Block {
	text, err := topicFiles.ReadFile(path.Join("docs", name+".md"))
	if err != nil {
		return nil
	}
	return manual.Parse(string(text))
}

// newHelp returns the command that prints the help of a command, or a topic.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [TOPIC | COMMAND]",
		Short: "Show a topic, or the help of a command",
		Long: `Prints a topic, or the help of COMMAND as xetfs COMMAND --help does. If a topic and a command
have the same name, the topic is printed. Without an argument it lists commands and topics.`,
		Example: `  xetfs help versions
  xetfs help catalog check`,
		ValidArgsFunction: completeHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if blocks := topic(args[0]); blocks != nil {
					_, err := io.WriteString(cmd.OutOrStdout(), manual.Text(blocks, ui.Columns(cmd.OutOrStdout())))
					return err
				}
			}
			about, err := commandAt(cmd.Root(), args)
			if err != nil {
				return err
			}
			return about.Help()
		},
	}
}

// completeHelp lets the shell complete topics and commands.
func completeHelp(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	about, err := commandAt(cmd.Root(), args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	if len(args) == 0 {
		for _, name := range topics() {
			words = append(words, name+"\t"+manual.Title(topic(name)))
		}
	}
	for _, sub := range about.Commands() {
		if sub.IsAvailableCommand() && (len(args) > 0 || topic(sub.Name()) == nil) {
			words = append(words, sub.Name()+"\t"+sub.Short)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// commandAt returns the command that some words name.
func commandAt(cmd *cobra.Command, words []string) (*cobra.Command, error) {
next:
	for i, word := range words {
		for _, sub := range cmd.Commands() {
			if sub.Name() == word || sub.HasAlias(word) {
				cmd = sub
				continue next
			}
		}
		return nil, knownCommand(cmd, words[i:])
	}
	return cmd, nil
}

// setHelp makes all commands print the help of helpText. Package cobra drops the error of printing, which
// failed returns.
func setHelp(root *cobra.Command) (failed func() error) {
	var err error
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, err = fmt.Fprint(cmd.OutOrStdout(), helpText(cmd, ui.Columns(cmd.OutOrStdout())))
	})
	return func() error { return err }
}

// helpText returns the help of a command, wrapped at width columns.
func helpText(cmd *cobra.Command, width int) string {
	var b strings.Builder
	b.WriteString(manual.Text(manual.Parse(cmd.Long), width))
	fmt.Fprintf(&b, "\nUsage:\n  %s\n", cmd.UseLine())
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases: %s\n", cmd.NameAndAliases())
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	b.WriteString(commandsText(cmd))
	if cmd.HasAvailableLocalFlags() {
		b.WriteString("\nFlags:\n" + manual.Definitions(flagRows(cmd), width))
	}
	b.WriteString(seeText(cmd, width))
	return b.String()
}

// flagRows returns the flags of a command, and their usage with the default.
func flagRows(cmd *cobra.Command) (rows [][2]string) {
	cmd.InitDefaultHelpFlag()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "    --" + strings.TrimSpace(f.Name+" "+kind)
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name[4:]
		}
		switch f.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		rows = append(rows, [2]string{name, usage})
	})
	return rows
}

// commandsText lists the commands below a command, by group.
func commandsText(cmd *cobra.Command) string {
	text := ""
	groups := append(cmd.Groups(), &cobra.Group{Title: "Commands:"})
	for _, group := range groups {
		lines := ""
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group.ID && (sub.IsAvailableCommand() || sub.Name() == "help") {
				lines += fmt.Sprintf("  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
		if lines != "" {
			text += "\n" + group.Title + "\n" + lines
		}
	}
	return text
}

// seeText names the topics that continue the help of a command. The program itself names all.
func seeText(cmd *cobra.Command, width int) string {
	text := ""
	switch names := strings.Fields(cmd.Annotations[seeKey]); {
	case !cmd.HasParent():
		text = "Topics (xetfs help TOPIC): " + strings.Join(topics(), ", ")
	case len(names) > 0:
		text = "See also: xetfs help " + strings.Join(names, ", xetfs help ")
	default:
		return ""
	}
	return "\n" + manual.Text(manual.Parse(text), width)
}
