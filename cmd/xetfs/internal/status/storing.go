package status

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// Around returns the mounts with some paths in them, each once. It follows links.
func Around(paths ...string) (all []Mount) {
	table := map[string]*fusemount.Entry{} // by mountpoint
	_, err := fusemount.Find("self", func(e *fusemount.Entry) bool {
		table[e.Point] = e
		return false
	})
	if err != nil {
		return nil
	}
	for _, path := range paths {
		e := showing(table, path)
		if e != nil && e.Type == fusemount.FSType && !slices.ContainsFunc(all, func(m Mount) bool { return m.Dir == e.Point }) {
			all = append(all, newMount(e))
		}
	}
	return all
}

// showing returns the mount that shows the end of the links in a path, or nil.
func showing(table map[string]*fusemount.Entry, path string) *fusemount.Entry {
	if stack.IsAddress(path) {
		return nil
	}
	dir, err := filepath.EvalSymlinks(path)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil
	}
	e, _ := innermost(table, dir)
	return e
}

// FromSource returns the mounts of a SOURCE.
func FromSource(all []Mount, source string) []Mount {
	if !stack.IsAddress(source) {
		if path, err := filepath.Abs(source); err == nil {
			source = path
		}
	}
	source = strings.TrimRight(stack.WithoutSecrets(source), "/")
	return slices.DeleteFunc(slices.Clone(all), func(m Mount) bool { return strings.TrimRight(m.Source, "/") != source })
}

// WritingTo returns the mount whose process has the lock of a disk cache, or nil. The figures of
// the mounts must be filled in. pid is what stack.CacheOwner returns.
func WritingTo(all []Mount, pid int) *Mount {
	i := slices.IndexFunc(all, func(m Mount) bool { return m.State == StateOK && m.Stats.Process.PID == pid })
	if i < 0 || pid == 0 {
		return nil
	}
	return &all[i]
}

// CheckStoring returns an error with the next step if a mount stores nothing of what is read. A mount
// without figures passes.
func (m *Mount) CheckStoring() error {
	switch {
	case m.State != StateOK:
		return nil
	case m.Stats.Disk == nil:
		return fmt.Errorf("%s: the mount has no disk cache, so it stores nothing; mount it with --cache-dir, or name SOURCE", m.Dir)
	case m.Stats.Disk.State == "shared":
		return fmt.Errorf("%s: the mount only reads from its disk cache, which another process writes to; name SOURCE", m.Dir)
	}
	return nil
}

// FolderOf returns the folder of a mount with the tree of a version, or "" if the mount does not show
// it. A mount shows one symbol or all of them. root is the hash of the root page.
func (m *Mount) FolderOf(symbol string, number uint64, root string) string {
	old := filepath.Join(cmp.Or(m.Stats.Process.VersionsDir, ".versions"), strconv.FormatUint(number, 10)) // an older xetfs has no such figure
	for _, base := range []string{m.Dir, filepath.Join(m.Dir, symbol)} {
		for _, folder := range []string{base, filepath.Join(base, old)} {
			shown := make([]byte, 1024)
			n, err := unix.Getxattr(folder, "user.xet.tindex", shown)
			if err == nil && string(shown[:n]) == root {
				return folder
			}
		}
	}
	return ""
}
