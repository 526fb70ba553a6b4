package mountopts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// helperNames are the names by which mount(8) starts a mount helper.
var helperNames = []string{"mount.xetfs", "mount.fuse.xetfs"}

// A Call is one call by mount(8).
type Call struct {
	Source, Dir string
	Options     []string // each with commas, in order
	Sloppy      bool     // -s: unknown options are ignored
	Fake        bool     // -f: nothing is mounted
	Verbose     bool     // -v: the result is printed
	Namespace   string   // -N: the file of the mount namespace with both paths; "": that of mount(8)
}

// isHelper reports whether a program name is that of a mount helper.
func isHelper(program string) bool { return slices.Contains(helperNames, filepath.Base(program)) }

// ProgramName returns the name for a background process of a program, which is no mount helper.
func ProgramName(program string) string {
	if isHelper(program) {
		return filepath.Join(filepath.Dir(program), "xetfs")
	}
	return program
}

// ParseCall returns the call behind the arguments of a process. The call is nil if mount(8) did not
// start the process. isCommand reports whether a word is a command of xetfs: mount.fuse3 runs
// xetfs SOURCE DIR -o OPTIONS.
func ParseCall(argv []string, isCommand func(word string) bool) (*Call, error) {
	switch args := argv[min(1, len(argv)):]; {
	case len(argv) > 0 && isHelper(argv[0]):
		return parse(args)
	case len(args) == 4 && args[2] == "-o" && !strings.HasPrefix(args[0], "-") && !isCommand(args[0]):
		return parse(args)
	}
	return nil, nil
}

// parse reads SOURCE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE], in any order.
func parse(args []string) (*Call, error) {
	c := new(Call)
	var words []string
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--" {
			words = append(words, args...)
			break
		}
		letters, isFlag := strings.CutPrefix(word, "-")
		if !isFlag || letters == "" {
			words = append(words, word)
			continue
		}
		var err error
		if args, err = c.addFlags(letters, args); err != nil {
			return nil, err
		}
	}
	if len(words) != 2 {
		return nil, fmt.Errorf("want SOURCE and DIR, and not %d words", len(words))
	}
	c.Source, c.Dir = words[0], words[1]
	return c, nil
}

// addFlags reads the letters of one word, and returns the words behind the value of the last one.
func (c *Call) addFlags(letters string, rest []string) ([]string, error) {
	for i, letter := range letters {
		switch letter {
		case 's':
			c.Sloppy = true
		case 'f':
			c.Fake = true
		case 'v':
			c.Verbose = true
		case 'n': // no entry in /etc/mtab, which nothing writes
		case 'o', 't', 'N':
			value := letters[i+1:]
			if value == "" && len(rest) == 0 {
				return nil, fmt.Errorf("-%c needs a value", letter)
			} else if value == "" {
				value, rest = rest[0], rest[1:]
			}
			c.addValue(letter, value)
			return rest, nil
		default:
			return nil, fmt.Errorf("unknown flag: -%c", letter)
		}
	}
	return rest, nil
}

func (c *Call) addValue(letter rune, value string) {
	switch letter {
	case 'o':
		c.Options = append(c.Options, value)
	case 'N':
		c.Namespace = value
	}
}

// HelperArgs returns the arguments of a mount helper for the call, without its namespace.
func (c *Call) HelperArgs() []string {
	var args []string
	for _, o := range c.Options {
		args = append(args, "-o", o)
	}
	for flag, given := range map[string]bool{"-s": c.Sloppy, "-f": c.Fake, "-v": c.Verbose} {
		if given {
			args = append(args, flag)
		}
	}
	return append(args, "--", c.Source, c.Dir)
}

// Args returns the arguments of xetfs for the call.
func (c *Call) Args() []string {
	args := []string{"mount"}
	for _, o := range c.Options {
		args = append(args, "--options="+o)
	}
	if c.Sloppy {
		args = append(args, "--sloppy")
	}
	if c.Fake {
		args = append(args, "--fake")
	}
	return append(args, "--", c.Source, c.Dir)
}

// The exit statuses of mount(8).
const (
	statusUsage       = 1  // wrong arguments or missing rights
	statusInterrupted = 8  // by a signal
	statusFailure     = 32 // of the mount
)

// StatusUsage is the exit status for wrong arguments.
const StatusUsage = statusUsage

// Status returns the exit status of mount(8) for one of xetfs.
func Status(status int) int {
	const usage, notAllowed, signals = 2, 5, 128
	switch {
	case status == 0:
		return 0
	case status == usage, status == notAllowed:
		return statusUsage
	case status > signals:
		return statusInterrupted
	}
	return statusFailure
}
