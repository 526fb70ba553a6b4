package dir_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// The test starts itself again with these.
var (
	writerIn = flag.String("writer", "", "a folder: be a process that writes to the store there")
	writerNo = flag.Int("writer-no", 0, "which of the processes")
)

const (
	processes      = 4
	processObjects = 60
	processCounts  = 15
)

func processKey(i int) names.Key { return names.XorbKey(codec.Hash{7: byte(i % 5), 0: byte(i)}) }

// processValue is a few pages, so that a value that is half written would be seen.
func processValue(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 20_000+i) }

// TestWriterProcess is one of the processes. It puts objects, each of which several want
// to put, and counts in a ref. It prints what it put, and a full stop when it is done.
func TestWriterProcess(t *testing.T) {
	if *writerIn == "" {
		t.Skip("started by other tests")
	}
	s := openStore(t, *writerIn)
	rng := rand.New(rand.NewPCG(uint64(*writerNo), 0))
	for _, i := range rng.Perm(processObjects) {
		_, err := s.PutIfAbsent(t.Context(), processKey(i), processValue(i))
		switch {
		case err == nil:
			fmt.Printf("put %d\n", i)
		case !errors.Is(err, origin.ErrExists):
			t.Fatal(err)
		}
		if i%10 == 0 {
			if err := s.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range processCounts {
		count(t, s)
	}
	fmt.Println(".")
}

// count adds one to the number in a ref, however many others do.
func count(t *testing.T, s *dir.Store) {
	for {
		value, tag, err := s.Get(t.Context(), refKey, "")
		if errors.Is(err, origin.ErrNotFound) {
			if _, err = s.PutIfAbsent(t.Context(), refKey, []byte("1")); err == nil {
				return
			}
		} else if err == nil {
			n, _ := strconv.Atoi(string(value))
			if _, err = s.PutIfMatch(t.Context(), refKey, []byte(strconv.Itoa(n+1)), tag); err == nil {
				return
			}
		}
		if !errors.Is(err, origin.ErrConflict) && !errors.Is(err, origin.ErrExists) {
			t.Fatal(err)
		}
	}
}

// startWriters starts all processes and returns what they printed when they have ended.
// Those that kill names are killed after a while.
func startWriters(t *testing.T, root string, kill func(no int) (after time.Duration, ok bool)) []string {
	t.Helper()
	out := make([]string, processes)
	var running sync.WaitGroup
	for no := range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriterProcess$", "-writer="+root, "-writer-no="+strconv.Itoa(no))
		var printed bytes.Buffer
		cmd.Stdout, cmd.Stderr = &printed, &printed
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after, killed := kill(no)
		if killed {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
		running.Go(func() {
			err := cmd.Wait()
			out[no] = printed.String()
			if err != nil && !killed {
				t.Errorf("process %d: %v\n%s", no, err, out[no])
			}
		})
	}
	running.Wait()
	return out
}

// Several processes put the same objects. Exactly one put of each object stores it, and no
// change of a ref is lost.
func TestO31_Processes(t *testing.T) {
	root := t.TempDir()
	out := startWriters(t, root, func(int) (time.Duration, bool) { return 0, false })
	puts := map[string]int{}
	for line := range strings.SplitSeq(strings.Join(out, "\n"), "\n") {
		if strings.HasPrefix(line, "put ") {
			puts[line]++
		}
	}
	for i := range processObjects {
		if n := puts[fmt.Sprintf("put %d", i)]; n != 1 {
			t.Errorf("object %d was put %d times", i, n)
		}
	}
	checkProcesses(t, root, processes*processCounts, processes*processCounts)
	if left := tree(t, filepath.Join(root, "tmp")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Killed processes leave only whole values under a name and block no other process. Their
// partial values are not seen.
func TestO30_ProcessesKilled(t *testing.T) {
	root := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		startWriters(t, root, func(no int) (time.Duration, bool) {
			return time.Duration(rng.IntN(150)) * time.Millisecond, no > 0
		})
		checkProcesses(t, root, 1, 1<<20)
		if err := os.RemoveAll(filepath.Join(root, "tdata")); err != nil { // all over again
			t.Fatal(err)
		}
	}
}

// checkProcesses checks the objects, and that the ref has counted between two numbers.
func checkProcesses(t *testing.T, root string, least, most int) {
	t.Helper()
	s := openStore(t, root)
	for i := range processObjects {
		if b, _, err := s.Get(t.Context(), processKey(i), ""); err != nil || !bytes.Equal(b, processValue(i)) {
			t.Errorf("object %d: %d bytes, %v", i, len(b), err)
		}
	}
	b, _, err := s.Get(t.Context(), refKey, "")
	if n, bad := strconv.Atoi(string(b)); err != nil || bad != nil || n < least || n > most {
		t.Errorf("the ref is %q, %v, want %d to %d", b, err, least, most)
	}
}
