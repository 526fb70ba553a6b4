package sequence

import (
	"context"

	"github.com/xetfs/xetfs/codec/page"
)

const (
	maxPushWindow = 128     // pushed files
	maxPushBytes  = 4 << 20 // of the files of a window

	// MaxPush is the size of the largest pushed file. The kernel reads larger ones ahead.
	MaxPush = 128 << 10

	// pushRun is how many files in order open a window.
	pushRun = 2

	// pushLead is how many files between the reader and a pushed file are left to the reader. A push of
	// the file that is being read waits for the reply to the reader.
	pushLead = 1
)

// Pushes reports whether the Detector pushes files.
func (d *Detector) Pushes() bool { return d != nil && d.push != nil }

// startRun returns how many files in order open a window.
func (d *Detector) startRun() int {
	if d.push == nil {
		return startRun
	}
	return pushRun
}

// newWindow returns the window of a new reader. One of pushes has the files of pushLead, and the one whose
// read continues it, beyond its size.
func (d *Detector) newWindow() window {
	if d.push == nil {
		return newWindow(maxWindow, 0)
	}
	return newWindow(maxPushWindow, pushLead+1)
}

// beginning returns the place before the first file of the directory of a path.
func beginning(path string) string {
	dir, _ := split(path)
	return join(dir, "")
}

// pushable returns the first files that a window of pushes may have.
func pushable(files []page.Entry) []page.Entry {
	bytes := int64(0)
	for i := range files {
		if files[i].Size <= MaxPush {
			bytes += files[i].Size
		}
		if bytes > maxPushBytes {
			return files[:max(1, i)]
		}
	}
	return files
}

// pushAll pushes the files of a window. A push has no reply of the reader, so the last file is left to
// it: the read of that file continues the window. The end of a directory needs none.
func (d *Detector) pushAll(ctx context.Context, r *reader, files []page.Entry, last bool) {
	if !last {
		files = files[:len(files)-1]
	}
	for i := range files {
		e := &files[i]
		if ctx.Err() != nil {
			return
		}
		isAhead := func() bool { return d.isAhead(r, e.Path) }
		if e.Size <= MaxPush && isAhead() && d.push(ctx, r.tree, e, isAhead) {
			d.pushed(r, e.Path)
		}
	}
}

// isAhead reports whether a file is so far ahead of the reader that it can be pushed.
func (d *Detector) isAhead(r *reader, path string) bool {
	d.lock()
	defer d.mu.Unlock()
	file, ok := r.ahead[path]
	return ok && file.at >= r.opened+pushLead
}

// pushed records that a file was pushed.
func (d *Detector) pushed(r *reader, path string) {
	d.lock()
	defer d.mu.Unlock()
	if file, ok := r.ahead[path]; ok {
		file.pushed = true
		r.ahead[path] = file
	}
}
