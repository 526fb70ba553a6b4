package fusemount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// helperNames are the names of the helper in PATH: that of FUSE 3, then that of FUSE 2.
var helperNames = []string{"fusermount3", "fusermount"}

// helperPlaces are the fixed places of the helper, for a process with another PATH.
var helperPlaces = []string{
	"/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3", "/usr/bin/fusermount", "/bin/fusermount",
}

// findHelper returns the path of fusermount3: from PATH, or else from a fixed place.
func findHelper() (string, error) {
	for _, name := range helperNames {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	for _, path := range helperPlaces {
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", errors.New("without root, fusermount3 is needed; install it: apt-get install fuse3")
}

// mountTable is the table of mounts that fusermount3 reads.
var mountTable = "/etc/mtab"

// runHelper runs fusermount3. A non-zero exit status is an error with the text of
// fusermount3. remote becomes the descriptor for /dev/fuse; nil: none.
func runHelper(remote *os.File, args ...string) error {
	path, err := findHelper()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...) //nolint:noctx // an unmount must also work at the end of the process
	cmd.Env = []string{}
	if remote != nil {
		cmd.Env = []string{"_FUSE_COMMFD=3"}
		cmd.ExtraFiles = []*os.File{remote}
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch text := strings.TrimSpace(string(out)); {
	case err == nil:
		return nil
	case strings.Contains(text, "busy"):
		return unix.EBUSY
	case unix.Access(mountTable, unix.F_OK) != nil:
		return fmt.Errorf("fusermount3 needs %s, which is missing; as root: ln -s /proc/self/mounts %s", mountTable, mountTable)
	case text != "":
		return errors.New(strings.ReplaceAll(text, "\n", "; "))
	case errors.As(err, &exit):
		return fmt.Errorf("%s: %w", path, exit)
	default:
		return err // the program could not be started; the text names it
	}
}
