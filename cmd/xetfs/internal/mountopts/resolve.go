package mountopts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// withoutEffect are the options of mount(8) that change nothing: every mount is read-only, nosuid
// and nodev, and the others are for mount(8) or systemd.
var withoutEffect = names(`ro rw nosuid suid nodev dev exec defaults auto noauto nofail _netdev
	user nouser users owner group comment async sync dirsync atime noatime diratime nodiratime
	relatime norelatime strictatime nostrictatime lazytime nolazytime silent loud`)

// secretParts are parts of the names of options that would hold a secret.
var secretParts = []string{"token", "password", "passwd", "secret", "credential", "access-key", "api-key", "authorization", "cookie"}

func names(list string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range strings.Fields(list) {
		set[name] = true
	}
	return set
}

// Resolve returns the options that are flags, with the names of the flags. It leaves out options
// without effect, and with sloppy unknown ones, too. It refuses secrets and remount. No error has
// the value of an option.
func Resolve(options []Option, flags []string, sloppy bool) ([]Option, error) {
	var known []Option
	for _, o := range options {
		name := strings.ReplaceAll(o.Name, "_", "-")
		switch {
		case slices.Contains(flags, name):
			o.Name = name
			known = append(known, o)
		case withoutEffect[o.Name], strings.HasPrefix(o.Name, "x-"), strings.HasPrefix(o.Name, "X-"):
		case o.Name == "remount":
			return nil, fmt.Errorf("-o remount: a mount keeps its options; umount, then mount again")
		case isSecret(name):
			return nil, fmt.Errorf("-o %s: every user can read fstab and a command line; set secrets in the environment, or in the file of XETFS_TOKEN_FILE", o.Name)
		case !sloppy:
			return nil, unknown(o.Name, flags)
		}
	}
	return known, nil
}

func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) })
}

// unknown returns the error of an unknown option, with similar names.
func unknown(name string, flags []string) error {
	candidates := slices.Concat(flags, slices.Sorted(maps.Keys(withoutEffect)))
	similar := hint.Closest(strings.ReplaceAll(name, "_", "-"), slices.Values(candidates))
	if len(similar) == 0 {
		return fmt.Errorf("-o: %q is not an option; xetfs mount --help lists the flags", name)
	}
	return fmt.Errorf("-o: %q is not an option; did you mean %s?", name, ui.AnyOf(similar))
}
