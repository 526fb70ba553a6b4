package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// The process needs overhead beside the memory that a user grants it. Overhead covers the
// program, buffers of pending requests, the names of a tree and uncollected garbage. Resident
// memory stays within --memory and overhead.
const (
	overhead      = 128 << 20
	collectorRoom = 64 << 20 // of overhead, granted to the Go heap

	defaultMemory = 512 << 20
	leastMemory   = 16 << 20
)

// limitMemory makes the garbage collector keep the process within bytes and overhead,
// less if a cgroup or GOMEMLIMIT allows less. It returns the bytes to divide.
func limitMemory(bytes int64, log *slog.Logger) int64 {
	if cgroup, err := memlimit.FromCgroup(); err == nil {
		bytes = fitCgroup(bytes, int64(min(cgroup, math.MaxInt64)), log)
	}
	debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), bytes+collectorRoom))
	return bytes
}

// mostReaders is how many goroutines of go-fuse read messages at most.
const mostReaders = 16

// useThreads raises GOMAXPROCS above the number of cores, unless the environment sets it.
// Goroutines that answer messages of the kernel never rest under load, and each holds a P all
// the time. Any other goroutine then waits until one of them is preempted, which takes 10 ms.
// With more Ps the kernel shares the cores. Eight random readers of a mount on two cores get
// 1.5 times the throughput. Their 99th percentile drops from 9 to 3 ms.
func useThreads() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(threadsFor(runtime.GOMAXPROCS(0)))
	}
}

func threadsFor(cores int) int { return max(cores, min(2*cores, mostReaders)) }

// fitCgroup lowers bytes until they fit into a cgroup together with overhead.
func fitCgroup(bytes, cgroup int64, log *slog.Logger) int64 {
	fit := max(leastMemory, cgroup/16*15-overhead)
	if bytes <= fit {
		return bytes
	}
	log.Warn("--memory is lowered to what the cgroup allows", "event", "memory_limit",
		"memory", bytes, "cgroup", cgroup, "lowered", fit)
	return fit
}

// stateDir is where logs of background mounts lie, by the rules of XDG. It belongs to this
// user.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return checkOwn(filepath.Join(dir, "xetfs"))
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) { // a mount works in "/"
		return "", errors.New("neither XDG_STATE_HOME nor HOME is an absolute path")
	}
	return checkOwn(filepath.Join(home, ".local", "state", "xetfs"))
}

// cacheDir returns the folder of all caches, by the rules of XDG.
func cacheDir() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "xetfs"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("neither XDG_CACHE_HOME nor HOME is an absolute path")
	}
	return filepath.Join(home, ".cache", "xetfs"), nil
}

// ownCacheDir is cacheDir if it belongs to this user.
func ownCacheDir() (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	return checkOwn(dir)
}

// checkOwn returns a folder that exists, or will exist, and belongs to this user. Nothing is
// written below the HOME of another user, which sudo may leave set.
func checkOwn(folder string) (string, error) {
	for path := folder; ; path = filepath.Dir(path) {
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		switch uid := int(st.Uid); {
		case errors.Is(err, unix.ENOENT) && path != "/":
		case err != nil:
			return "", fmt.Errorf("%s: %w", path, err)
		case uid == os.Geteuid(), uid == 0 && path != folder: // /tmp, for example
			return folder, nil
		default:
			return "", fmt.Errorf("%s belongs to user %d", path, uid)
		}
	}
}

// verifyFlag is --verify: always or never.
type verifyFlag string

const (
	verifyAlways verifyFlag = "always"
	verifyNever  verifyFlag = "never"
)

// String implements pflag.Value.
func (v *verifyFlag) String() string { return string(*v) }

// Set implements pflag.Value.
func (v *verifyFlag) Set(text string) error {
	return oneOf((*string)(v), text, string(verifyAlways), string(verifyNever))
}

// Type implements pflag.Value.
func (v *verifyFlag) Type() string { return "WHEN" }

// openFlag is --open: auto, stateless or handles.
type openFlag string

const (
	openAuto      openFlag = "auto"
	openStateless openFlag = "stateless"
	openHandles   openFlag = "handles"
)

// stateless reports whether the kernel opens files without a message to xetfs. A source without
// readahead loses nothing, and a small file saves two of three messages.
func (o openFlag) stateless(near bool) bool {
	return o == openStateless || o == openAuto && near
}

// String implements pflag.Value.
func (o *openFlag) String() string { return string(*o) }

// Set implements pflag.Value.
func (o *openFlag) Set(text string) error {
	return oneOf((*string)(o), text, string(openAuto), string(openStateless), string(openHandles))
}

// Type implements pflag.Value.
func (o *openFlag) Type() string { return "HOW" }

// oneOf sets a flag to one of a few words.
func oneOf(flag *string, text string, words ...string) error {
	for _, w := range words {
		if text == w {
			*flag = text
			return nil
		}
	}
	return fmt.Errorf("want %s", ui.AnyOf(words))
}
