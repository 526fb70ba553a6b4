package stack

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

// checkLocal refuses an address where only a folder is possible, and returns the text to type
// instead. As a path, an address would name a folder by mistake, which some commands create.
func checkLocal(folder string) error {
	switch {
	case isBucket(folder):
		return ArgumentError{fmt.Errorf("%s: is a bucket, and here a local folder is needed; type its path", WithoutSecrets(folder))}
	case IsAddress(folder):
		return ArgumentError{fmt.Errorf("%s: is an address, and here a local folder or a bucket is needed; type its path, or s3://BUCKET", WithoutSecrets(folder))}
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
		return ArgumentError{fmt.Errorf("an address begins with %s:// (two slashes); type %s", scheme, WithoutSecrets(scheme+"://"+strings.TrimLeft(rest, "/")))}
	case !strings.HasPrefix(rest, "//"):
		return nil
	case scheme == "file":
		return ArgumentError{fmt.Errorf("a folder is named by its path, without file://; type %s", ui.ShellWord(pathOfFile(rest)))}
	case scheme == "gs" || scheme == "az":
		return ArgumentError{fmt.Errorf("%s: buckets without the S3 API are not supported; type an s3:// or https:// address, or the path of a copy", WithoutSecrets(folder))}
	}
	return ArgumentError{fmt.Errorf("%s: only s3://, hf://, http:// and https:// addresses are supported; type one of these, or the path of a folder", WithoutSecrets(folder))}
}

// pathOfFile returns the path in a file address, without its scheme and colon.
func pathOfFile(rest string) string {
	u, err := url.Parse("file:" + rest)
	if err != nil || u.Path == "" {
		return "/" + strings.TrimLeft(rest, "/")
	}
	return u.Path
}

// hostPort matches a host with a port and an optional path. Without http:// it looks like a
// path.
var hostPort = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):[0-9]{1,5}(/.*)?$`)

func isHostPort(s string) bool { return hostPort.MatchString(s) }
