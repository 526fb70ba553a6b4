package ui

import (
	"fmt"
	"strings"
)

// Plural returns a number with its noun: "1 shard", "2 shards", "2 entries", "2 keys".
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, pluralForm(noun))
}

// pluralForm returns the plural of a noun that takes -s: a y after a consonant becomes ie.
func pluralForm(noun string) string {
	stem, ok := strings.CutSuffix(noun, "y")
	if !ok || stem == "" || strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return noun + "s"
	}
	return stem + "ies"
}

// AnyOf lists names in a sentence: "a", "a or b", "a, b or c".
func AnyOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// NoticeLine returns a line of a command for standard error.
func NoticeLine(command, text string) string { return Printable(fmt.Sprintf("%s: %s", command, text)) }

// ShellWord returns s in a form that can be pasted into a shell.
func ShellWord(s string) string {
	plain := !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/._-+,:=@%", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	switch {
	case plain && s != "":
		return s
	case isPrintable(s):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return ansiWord(s)
}
