package ingest

import (
	"os"
	"path/filepath"
)

// IsInside reports whether a path is a folder or in it, also through links. A path without
// permission is not. The error is one of this machine.
func IsInside(path, folder string) (bool, error) {
	target, err := os.Stat(folder)
	if err != nil {
		return false, machineOnly(err) // the folder may be absent
	}
	path, err = filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return false, machineOnly(err)
	}
	for {
		info, err := os.Stat(path)
		if err == nil && os.SameFile(info, target) {
			return true, nil
		}
		above := filepath.Dir(path)
		if IsMachine(err) || above == path {
			return false, machineOnly(err)
		}
		path = above
	}
}

// machineOnly returns err if it is an error of this machine.
func machineOnly(err error) error {
	if IsMachine(err) {
		return err
	}
	return nil
}
