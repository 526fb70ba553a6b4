package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// xetCoreEnv names the command line, words separated by blanks, of a program that packs its
// argument as xet-core does. The program stores nothing.
const xetCoreEnv = "XETFS_BENCH_XET_CORE"

// A cost is what a program took from its start to its end.
type cost struct {
	wall, cpu float64 // seconds
	peak      float64 // resident memory, bytes
}

// benchPack packs every kind of content into a new store, then once more into the same,
// row P10. Everything is measured from outside: the whole life of the process.
func benchPack(t *testing.T, r *results) {
	if !canPack(t) {
		t.Log("P10 is left out: this xetfs has no command pack")
		return
	}
	for _, k := range append(kinds[:2:2], noiseKind) {
		plain := filepath.Join(t.TempDir(), "plain")
		k.lay(t, plain, *benchMiB<<20)
		benchPackFolder(t, r, k.name, plain, filepath.Join(plain, "file"))
	}
	plain := filepath.Join(t.TempDir(), "plain")
	laySources(t, plain)
	benchPackFolder(t, r, "source tree", plain, plain)
}

// benchPackFolder packs one folder; target is what the peer is given.
func benchPackFolder(t *testing.T, r *results, name, plain, target string) {
	t.Helper()
	size := sizeBelow(t, plain)
	peer := strings.Fields(os.Getenv(xetCoreEnv))
	for round := range *benchRounds + 1 { // the first is not measured
		add := func(system, what string, c cost) {
			if round == 0 {
				return
			}
			gb := float64(size) / 1e9
			r.add(figure{"P10", name + ", " + what, "MB/s", system, round - 1, gb * 1e3 / c.wall})
			r.add(figure{"P10", name + ", " + what + ": CPU", "s/GB", system, round - 1, c.cpu / gb})
			r.add(figure{"P10", name + ", " + what + ": peak memory", "MiB", system, round - 1, c.peak / (1 << 20)})
		}
		store := filepath.Join(t.TempDir(), "store")
		args := []string{"pack", store, plain}
		add(ours, "packed and stored", measure(t, harness.Program(t), args...))
		add(ours, "packed again, all known", measure(t, harness.Program(t), args...))
		if err := os.RemoveAll(store); err != nil {
			t.Fatal(err)
		}
		if len(peer) > 0 {
			add(xetCore, "packed and stored", measure(t, peer[0], append(peer[1:len(peer):len(peer)], target)...))
		}
	}
}

func sizeBelow(t *testing.T, folder string) (sum int64) {
	t.Helper()
	for _, name := range harness.FilesBelow(t, folder) {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// measure runs a program to its end. It samples the peak memory while the program runs, because
// the figure of the kernel (ru_maxrss) includes the process that started the program.
func measure(t *testing.T, program string, args ...string) cost {
	t.Helper()
	cmd := exec.Command(program, args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var c cost
	for tick := time.Tick(10 * time.Millisecond); ; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, harness.Tail(said.String(), 2000))
			}
			c.wall = time.Since(start).Seconds()
			c.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
			return c
		case <-tick:
			c.peak = max(c.peak, peakMemory(cmd.Process.Pid))
		}
	}
}

// peakMemory is VmHWM of a process in bytes, 0 if it has ended.
func peakMemory(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "\nVmHWM:")
	line, _, _ := strings.Cut(rest, " kB")
	kib, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	if err != nil {
		return 0 // it is ending: it has no memory any more
	}
	return kib * 1024
}
