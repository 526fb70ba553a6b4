package main

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// checkLocal refuses an address where only a folder can be, and says what to type. As a
// path an address would name, and for some commands make, a folder of that name by mistake.
func checkLocal(folder string) error {
	if isWeb(folder) {
		return ArgumentError{fmt.Errorf("%s: is an address, and here a local folder is needed; type the path of the store on the machine that holds it", withoutSecrets(folder))}
	}
	if isHostPort(folder) {
		if _, err := os.Lstat(folder); errors.Is(err, iofs.ErrNotExist) {
			return ArgumentError{fmt.Errorf("%s: there is no such folder; type http://%s for a web server, or ./%s for a new folder", folder, folder, folder)}
		}
	}
	scheme, rest, ok := strings.Cut(folder, ":")
	if !ok || !isScheme(scheme) {
		return nil
	}
	switch scheme = strings.ToLower(scheme); {
	case scheme == "http" || scheme == "https":
		return ArgumentError{fmt.Errorf("an address begins with %s:// (two slashes); type %s", scheme, withoutSecrets(scheme+"://"+strings.TrimLeft(rest, "/")))}
	case !strings.HasPrefix(rest, "//"):
		return nil
	case scheme == "file":
		return ArgumentError{fmt.Errorf("a folder is named by its path, without file://; type %s", ui.ShellWord(pathOfFile(rest)))}
	case scheme == "s3" || scheme == "gs" || scheme == "az" || scheme == "hf":
		return ArgumentError{fmt.Errorf("%s: buckets and the Hub cannot be read yet; type the http:// or https:// address of the store, or the path of a copy of it", withoutSecrets(folder))}
	}
	return ArgumentError{fmt.Errorf("%s: of addresses only http:// and https:// can be read; type one of these, or the path of a folder", withoutSecrets(folder))}
}

// pathOfFile is the path in a file address, without its scheme and colon.
func pathOfFile(rest string) string {
	u, err := url.Parse("file:" + rest)
	if err != nil || u.Path == "" {
		return "/" + strings.TrimLeft(rest, "/")
	}
	return u.Path
}

// hostPort is a host with a port, and maybe a path. Without http:// it looks like a path.
var hostPort = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):[0-9]{1,5}(/.*)?$`)

func isHostPort(s string) bool { return hostPort.MatchString(s) }
