package page

import (
	"bytes"
	"fmt"
	"strings"
)

// Limits of paths, those of Linux without the NUL at the end.
const (
	MaxName = 255  // bytes in one component
	MaxPath = 4095 // bytes in all
)

// Key returns the key of the entry of a path. The root is the path "".
func Key(path string) string {
	return string(AppendKey(make([]byte, 0, len(path)+1), path))
}

// DirKey returns what the keys of everything below a directory begin with. For the root
// that is nothing.
func DirKey(dir string) string {
	if dir == "" {
		return ""
	}
	return strings.ReplaceAll(dir, "/", "\x00") + "\x00"
}

// ChildKey returns what the keys of the entries directly in a directory begin with. A
// name behind it gives the key of that entry.
func ChildKey(dir string) string { return DirKey(dir) + "\x00" }

// ComparePaths orders paths as their keys: the order in which a Builder wants them. It
// is not the order of the paths themselves, nor that of a walk.
func ComparePaths(a, b string) int {
	var bufA, bufB [256]byte
	return bytes.Compare(AppendKey(bufA[:0], a), AppendKey(bufB[:0], b))
}

// PathOf is the inverse of Key. An invalid key is a codec.ErrCorrupt.
func PathOf(key string) (string, error) {
	if reason := badKey([]byte(key)); reason != "" {
		return "", bad(0, "key %.80q: %s", key, reason)
	}
	return pathOf([]byte(key)), nil
}

// CheckPath says what is wrong with the path of an entry, if anything is: it has an
// empty name, "." or "..", a NUL, or it is too long. Any other bytes are fine. The path
// of the root is "".
func CheckPath(path string) error {
	// A NUL in a path would be a border between names in its key.
	if strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("path %.80q: a name holds a NUL", path)
	}
	var buf [256]byte
	if reason := badKey(AppendKey(buf[:0], path)); reason != "" {
		return fmt.Errorf("path %.80q: %s", path, reason)
	}
	return nil
}

// AppendKey adds the key of a path to b.
func AppendKey(b []byte, path string) []byte {
	if path == "" {
		return b
	}
	for {
		dir, rest, more := strings.Cut(path, "/")
		if !more {
			b = append(b, 0)
			return append(b, path...)
		}
		b = append(b, dir...)
		b = append(b, 0)
		path = rest
	}
}

// pathOf returns the path of a key without a fault.
func pathOf(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	var buf [256]byte
	name := bytes.LastIndexByte(key, 0)
	path := append(buf[:0], key[:name]...)
	path = append(path, key[name+1:]...)
	for dirs := path[:name]; ; {
		i := bytes.IndexByte(dirs, 0)
		if i < 0 {
			return string(path)
		}
		dirs[i] = '/'
		dirs = dirs[i+1:]
	}
}

// badKey says what is wrong with a key, or nothing.
func badKey(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	if len(key) > MaxPath+1 {
		return fmt.Sprintf("a path of %d bytes, at most %d are allowed", len(key)-1, MaxPath)
	}
	end := bytes.LastIndexByte(key, 0)
	if end < 0 {
		return "no NUL before the name"
	}
	for dirs := key[:end]; len(dirs) > 0; {
		i := bytes.IndexByte(dirs, 0)
		if i < 0 {
			return "one NUL before the name, two are needed"
		}
		if reason := badName(dirs[:i]); reason != "" {
			return reason
		}
		dirs = dirs[i+1:]
	}
	return badName(key[end+1:])
}

func badName(name []byte) string {
	switch {
	case len(name) == 0:
		return "a name is empty"
	case len(name) > MaxName:
		return fmt.Sprintf("a name of %d bytes, at most %d are allowed", len(name), MaxName)
	case string(name) == "." || string(name) == "..":
		return fmt.Sprintf("a name is %q", string(name))
	case bytes.IndexByte(name, '/') >= 0:
		return "a name holds a slash"
	}
	return ""
}
