// Package fstest has what the tests of mounts share.
package fstest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// privateEnv marks a program that has a mount namespace of its own.
const privateEnv = "XETFS_TEST_PRIVATE_MOUNTS"

// PrivateMounts gives a test program of root a mount namespace of its own, by executing the
// program once more with the same process number. No other namespace can then hold copies
// of what tests mount, and no mount outlives its processes. TestMain calls it first. Without
// the right to make a namespace it does nothing.
func PrivateMounts() {
	if os.Geteuid() != 0 || os.Getenv(privateEnv) != "" {
		return
	}
	program, err := os.Executable() // by its path: /proc/self/exe is of the old namespace
	if err != nil {
		panic(err)
	}
	runtime.LockOSThread() // only this thread changes its namespace, and Exec ends all others
	if unix.Unshare(unix.CLONE_NEWNS) != nil {
		runtime.UnlockOSThread()
		return
	}
	// The root of a chroot may be no mount. Then mounts are shared as they were outside.
	_ = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	err = unix.Exec(program, os.Args, append(os.Environ(), privateEnv+"=1"))
	panic("a mount namespace of its own: " + err.Error())
}

// PrivateHome gives a test program an empty home, with the caches and logs of the programs that it
// starts. remove deletes it. Other runs of the tests and the user's mounts then share nothing with
// this one. Go keeps its folders.
func PrivateHome() (remove func()) {
	home, err := os.MkdirTemp("", "xetfs-home-")
	check(err)
	out, err := exec.CommandContext(context.Background(), "go", "env", "-json", "GOCACHE", "GOENV", "GOMODCACHE", "GOPATH").Output()
	check(err)
	folders := map[string]string{}
	check(json.Unmarshal(out, &folders))
	for name, folder := range folders {
		check(os.Setenv(name, folder))
	}
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		check(os.Unsetenv(name))
	}
	check(os.Setenv("HOME", home))
	return func() { _ = os.RemoveAll(home) }
}

// check panics because a test program has no test yet.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
