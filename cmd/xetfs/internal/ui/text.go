package ui

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Plural is a number with its noun: "1 shard", "2 shards", "2 entries", "2 keys".
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

// NoticeLine is a line on standard error that is no error.
func NoticeLine(command, text string) string { return Printable(fmt.Sprintf("%s: %s", command, text)) }

// ShellWord is s as it can be pasted into a shell.
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

// Reason is what an error of the os package says, without the system call and the
// path, which the caller names better.
func Reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
