package ingest

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
)

// S05: a small file that is overwritten while it is read remains for the packer. Dirty pages are
// written out before a read that the stat cache may record.
func TestS05_ReadSmall(t *testing.T) {
	for overwritten, want := range map[bool]entryState{false: stateDone, true: stateLarge} {
		path := filepath.Join(t.TempDir(), "a")
		writeFile(t, path, []byte("old"))
		if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		var st stat
		if err := new(syscalls).statAt(-1, path, &st); err != nil {
			t.Fatal(err)
		}
		var calls string
		files := newDescriptors(false, func(call string) error {
			if calls += call + " "; call == "read" && overwritten {
				writeFile(t, path, []byte("new"))
			}
			return nil
		})
		r := &reader{o: &Options{Update: new(statcache.Update)}, files: files}
		e := &Entry{in: fileFolder(files, path), stat: infoOf(&st)}
		r.small(t.Context(), &batch{buf: make([]byte, 0, 10)}, e, time.Now().Add(time.Hour))
		if calls != "openat sync_file_range read statx " || e.state != want {
			t.Errorf("overwritten %t: calls %q, state %d", overwritten, calls, e.state)
		}
	}
}

// A read begins when the times of the file will show each later change.
func TestSettleTimes(t *testing.T) {
	for age, want := range map[time.Duration]struct {
		calls string
		slept time.Duration
	}{
		5 * time.Millisecond:   {"statx ", timeGranularity - 5*time.Millisecond},
		100 * time.Millisecond: {"", 0},                       // the stat cache does not take the file
		time.Hour:              {"sync_file_range statx ", 0}, // a mapping may be dirty
	} {
		synctest.Test(t, func(t *testing.T) {
			f, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var calls string
			files := newDescriptors(false, func(call string) error {
				calls += call + " "
				return nil
			})
			begin := time.Now()
			at := begin.Add(-age)
			s := &stableReader{files: files, fd: int(f.Fd()), before: stat{mtime: at, ctime: at}, writeOut: true}
			if err := s.settleTimes(begin); err != nil || calls != want.calls || time.Since(begin) != want.slept {
				t.Errorf("age %v: %v, calls %q, slept %v", age, err, calls, time.Since(begin))
			}
		})
	}
}
