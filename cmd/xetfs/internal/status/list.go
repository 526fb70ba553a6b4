package status

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// The states of a mount in a list.
const (
	StateOK      = "ok"
	StateDead    = "dead"    // its process has ended
	StateSilent  = "silent"  // it did not answer in time
	StateRefused = "refused" // it is of another user, or of an older xetfs
	StatePart    = "part"    // it shows a part of another mount, as a bind mount does
	StateHidden  = "hidden"  // another mount covers its path
)

// A Mount is one line of a list.
type Mount struct {
	Dir    string          `json:"mountpoint"`
	Bytes  []byte          `json:"mountpoint_bytes"` // base64 of a path that is no UTF-8; else null
	Source string          `json:"source"`           // as in the mount table
	State  string          `json:"state"`
	Error  string          `json:"error,omitempty"` // of a mount in another state than StateOK
	Raw    json.RawMessage `json:"stats"`           // of a mount in StateOK; else null

	Stats Stats `json:"-"` // Raw, decoded
}

// Mounts returns the xetfs mounts of this mount namespace, by mountpoint. It sends no request to
// them. It returns the uppermost of stacked mounts.
func Mounts() ([]Mount, error) {
	byDir := map[string]Mount{}
	_, err := fusemount.Find("self", func(e *fusemount.Entry) bool {
		delete(byDir, e.Point)
		if e.Type == fusemount.FSType {
			byDir[e.Point] = newMount(e)
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	all := make([]Mount, 0, len(byDir))
	for _, m := range byDir {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Mount) int { return strings.Compare(a.Dir, b.Dir) })
	return all, nil
}

func newMount(e *fusemount.Entry) Mount {
	return Mount{Dir: e.Point, Bytes: ui.OddBytes(e.Point), Source: e.Source, State: StateSilent}
}

// Select returns the mounts at some directories. It follows links, and sends no request to a mount.
func Select(all []Mount, dirs []string) ([]Mount, error) {
	if len(dirs) == 0 {
		return all, nil
	}
	table := map[string]Mount{}
	for _, m := range all {
		table[m.Dir] = m
	}
	var chosen []Mount
	for _, dir := range dirs {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		m, ok := innermost(table, path)
		if !ok {
			if real, err := fusemount.FollowLinks(path); err == nil {
				path = real
				m, ok = innermost(table, path)
			}
		}
		switch {
		case ok && m.Dir == path:
			chosen = append(chosen, m)
		case ok:
			return nil, fmt.Errorf("%s: is a folder in a mount; xetfs status %s shows it", ui.Printable(dir), ui.ShellWord(m.Dir))
		default:
			return nil, fmt.Errorf("%s: no xetfs mount; xetfs status lists all of them", ui.Printable(dir))
		}
	}
	return chosen, nil
}

// innermost returns the mount that shows an absolute path, from a table by mountpoint.
func innermost[M any](table map[string]M, path string) (m M, ok bool) {
	for {
		if m, ok = table[path]; ok || path == "/" {
			return m, ok
		}
		path = filepath.Dir(path)
	}
}

// Fill adds the figures of the mounts that answer within limit. reader is the command line that
// runs PrintAll in another process. Fill does not wait for the end of that process: the kernel
// may keep it while a mount does not answer a request.
func Fill(ctx context.Context, mounts []Mount, reader []string, limit time.Duration) error {
	if len(mounts) == 0 {
		return nil
	}
	child := &exec.Cmd{Path: "/proc/self/exe", Args: slices.Clone(reader)}
	for _, m := range mounts {
		child.Args = append(child.Args, m.Dir)
	}
	out, in, err := os.Pipe() // Wait closes that of StdoutPipe, and the last answers are lost
	if err != nil {
		return err
	}
	child.Stdout = in
	err = child.Start()
	in.Close()
	if err != nil {
		out.Close()
		return fmt.Errorf("the figures cannot be read: %w", err)
	}
	answers := make(chan answer)
	done := make(chan struct{})
	defer close(done)
	go receive(out, answers, done)
	go func() { _ = child.Wait() }()
	defer child.Process.Kill() //nolint:errcheck // it may have ended
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for range mounts {
		select {
		case a, ok := <-answers:
			if !ok {
				return nil
			}
			take(mounts, a)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// An answer is a line of PrintAll. Its index names the mount: JSON cannot hold a path that is no UTF-8.
type answer struct {
	Index int `json:"index"` // of the directory
	Mount
}

// receive passes the lines of PrintAll to answers until done is closed.
func receive(r io.ReadCloser, answers chan<- answer, done <-chan struct{}) {
	defer r.Close()
	defer close(answers)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue
		}
		select {
		case answers <- a:
		case <-done:
			return
		}
	}
}

// take stores an answer in the list.
func take(mounts []Mount, a answer) {
	if a.Index < 0 || a.Index >= len(mounts) {
		return
	}
	m := &mounts[a.Index]
	m.State, m.Error, m.Raw = a.State, a.Error, a.Raw
	if m.State == StateOK && json.Unmarshal(m.Raw, &m.Stats) != nil {
		m.State, m.Error = StateRefused, "its figures are no JSON of this version"
	}
}

// PrintAll prints a line of JSON for each directory as soon as its mount has answered.
func PrintAll(w io.Writer, dirs []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, dir := range dirs {
		all.Go(func() {
			a := answer{i, read(dir)}
			mu.Lock()
			defer mu.Unlock()
			_ = json.NewEncoder(w).Encode(a) // the reader may have gone
		})
	}
	all.Wait()
}

// maxValue is the largest extended attribute, in bytes.
const maxValue = 64 << 10

// read returns the figures of a mount. It may wait without end.
func read(dir string) Mount {
	value := make([]byte, maxValue)
	n, err := unix.Getxattr(dir, "user.xet.stats", value)
	m := Mount{Dir: dir, State: StateOK}
	switch {
	case errors.Is(err, unix.ENOTCONN), errors.Is(err, unix.ECONNABORTED):
		m.State, m.Error = StateDead, "its process has ended; remove it: xetfs umount "+ui.ShellWord(dir)
	case err != nil && isHidden(dir):
		m.State, m.Error = StateHidden, "another mount covers it"
	case errors.Is(err, unix.ENODATA): // only the root of a mount has figures
		m.State, m.Error = StatePart, "it shows a folder or file of another mount, which has the figures"
	case errors.Is(err, unix.EACCES), errors.Is(err, os.ErrPermission):
		m.State, m.Error = StateRefused, "it is of another user"
	case err != nil:
		m.State, m.Error = StateRefused, ui.Reason(err).Error()
	case !json.Valid(value[:n]):
		m.State, m.Error = StateRefused, "its figures are no JSON"
	default:
		m.Raw = value[:n]
	}
	return m
}

// isHidden reports whether the path of a mount leads to another file system, or does not exist.
func isHidden(dir string) bool {
	e, err := fusemount.At(dir)
	if err != nil || e == nil {
		return false
	}
	var st unix.Stat_t
	err = unix.Stat(dir, &st)
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || err == nil && st.Dev != unix.Mkdev(0, e.Minor)
}
