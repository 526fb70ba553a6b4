package sequence

const (
	minWindow = 4
	maxWindow = 256

	// maxMisses is how many opens outside a window may follow each other in its directory. Two
	// readers of one directory take turns.
	maxMisses = 4
)

// A window has the files that were announced and not opened yet.
type window struct {
	size   int                  // wanted number of files
	most   int                  // largest size
	extra  int                  // files that are announced beyond size
	ahead  map[string]aheadFile // by path
	paths  []string             // of the last announced files, up to next
	next   int                  // position of the next file to announce
	opened int                  // position behind the last opened file
	start  int                  // position of the last restart
	misses int                  // consecutive opens outside the window
	wasted bool                 // a pushed file was opened
}

// An aheadFile is a file of a window.
type aheadFile struct {
	at     int  // position in the sequence
	pushed bool // the kernel has its content
}

func newWindow(most, extra int) window {
	return window{size: minWindow / 2, most: most, extra: extra, ahead: map[string]aheadFile{}}
}

// open records the open of a file, and reports whether the window has the file.
func (w *window) open(path string) bool {
	file, ok := w.ahead[path]
	if !ok {
		return false
	}
	delete(w.ahead, path)
	w.opened, w.misses = max(w.opened, file.at+1), 0
	w.wasted = w.wasted || file.pushed
	return true
}

// miss records an open outside the window, and reports whether the order is broken.
func (w *window) miss() bool {
	w.misses++
	return w.misses >= maxMisses
}

// grow returns how many files to announce now. While half of the window is ahead of the reader,
// this is 0; then the window doubles. Each announcement is at least half a window, because the
// cache drops the files of an announcement with the third one after it.
func (w *window) grow() int {
	if w.next-w.opened > w.size/2 {
		return 0
	}
	w.size = min(2*w.size, w.most)
	return w.size + w.extra - (w.next - w.opened)
}

// add adds announced files, in order. It drops files that the reader has passed by a window.
func (w *window) add(paths ...string) {
	for _, path := range paths {
		w.ahead[path] = aheadFile{at: w.next}
		w.next++
	}
	w.paths = append(w.paths, paths...)
	for at := w.next - len(w.paths); at < min(w.opened-w.size, w.next); at++ {
		if w.ahead[w.paths[0]].at == at {
			delete(w.ahead, w.paths[0])
		}
		w.paths = w.paths[1:]
	}
}

// restart continues the sequence at another place.
func (w *window) restart() { w.opened, w.start, w.misses = w.next, w.next, 0 }

// isFollowed reports whether files of the window were opened since the last restart, if it has any.
func (w *window) isFollowed() bool { return w.opened > w.start || w.next == w.start }
