package commits

import (
	"crypto/sha1" //nolint:gosec // git's names
	"encoding/hex"
	"fmt"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// gitAttribute is the extended attribute of a regular file: git's SHA-1, and then the first 8
// bytes of the file's Xet hash. Mounts do not show it. The second part makes the attribute invalid
// for any other content.
const gitAttribute = "user.xet.git"

const gitHashPrefix = 8

// gitSum returns git's SHA-1 of a file with a content.
func gitSum(content []byte) [sha1.Size]byte {
	h := sha1.New() //nolint:gosec // git's names
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return [sha1.Size]byte(h.Sum(nil))
}

// gitAttributes returns the attributes of a regular file.
func gitAttributes(sum [sha1.Size]byte, file codec.Hash) map[string]string {
	return map[string]string{gitAttribute: string(sum[:]) + string(file[:gitHashPrefix])}
}

// GitOID returns git's name of a file that a client has committed as a regular one, 40 hex digits;
// "" for all others.
func GitOID(e *page.Entry) string {
	v := e.Xattrs[gitAttribute]
	if len(v) != sha1.Size+gitHashPrefix || v[sha1.Size:] != string(e.ID.File[:gitHashPrefix]) {
		return ""
	}
	return hex.EncodeToString([]byte(v[:sha1.Size]))
}
