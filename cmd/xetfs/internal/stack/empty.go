package stack

import (
	"fmt"
	"path/filepath"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// NoShard returns the message about a SOURCE without shards.
func NoShard(source string) string { return "there is no shard in " + ui.Printable(source) }

// EmptyHint returns the end of a message about a SOURCE without shards. SOURCE may be a mount of
// xetfs, or a folder to publish. EmptyHint returns "" for a web server.
func EmptyHint(source string) string {
	if IsAddress(source) {
		return ""
	}
	absolute, err := filepath.EvalSymlinks(source)
	if err == nil {
		absolute, err = filepath.Abs(absolute)
	}
	if err != nil {
		return ""
	}
	if m, err := fusemount.At(absolute); err == nil && m != nil && m.Type == fusemount.FSType {
		return fmt.Sprintf("; it is a mount of xetfs, with the SOURCE %s", ui.Printable(m.Source))
	}
	return fmt.Sprintf("; xetfs publish STORE SYMBOL %s stores its files", ui.ShellWord(source))
}
