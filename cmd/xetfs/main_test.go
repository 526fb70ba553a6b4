package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/certtest"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/serve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/writer"
	"github.com/xetfs/xetfs/fs/fstest"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// In the scripts xetfs is this test program, which runs main.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name != "xetfs" && name != daemon.GuardName {
		fstest.PrivateMounts()
		os.Setenv("XETFS_PROGRESS", "none") // a command that takes long on a busy machine prints lines
	}
	testscript.Main(tests{m}, map[string]func(){"xetfs": main, daemon.GuardName: main})
}

// tests runs all tests with a home of their own.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer fstest.PrivateHome()()
	return t.M.Run()
}

// The scripts read like sessions. Beside the usual commands they have
//
//	exits STATUS COMMAND…   runs a command, which must exit with that status
//	eventually [!] COMMAND… runs a command until it succeeds (or fails)
//	flip FILE BYTE          changes one bit; FILE may be a pattern that fits one file
//	catalog STORE WINDOW GRACE  makes an empty catalog that waits so long
//	bucket NAME WINDOW GRACE    makes an empty catalog in a bucket, at $NAME
//	certificates            writes the authorities ca.pem and other.pem, and certificates with keys
//	                        for 127.0.0.1: good, next, expired, other; name is for another host
//	[!] asked FILE          looks whether (or that nobody) asked for xorbs since the last time;
//	                        FILE has the address of an xetfs serve
//	xattr FILE NAME REGEXP  looks whether an extended attribute fits
//
// and the conditions [fuse], that this machine can mount, [root], [s3], that it has a server of
// buckets, and [bash-completion], that bash can complete.
//
// Scripts run at the same time in one mount namespace. A script that makes another one first
// drops the copies of mounts there, or the umount of another script would not end its server.
func TestScript(t *testing.T) {
	demo, err := filepath.Abs(demo)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("GOLDEN") == "update",
		Setup: func(env *testscript.Env) error {
			env.Setenv("DEMO", demo)
			env.Setenv("STORE", filepath.Join(demo, "store"))
			env.Setenv("ODD", "a\nb\x1b[2J")
			env.Setenv("XETFS_PROGRESS", "none")
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Defer(func() { unmountBelow(t, env.WorkDir) })
			return nil
		},
		Condition: condition,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":        exits,
			"eventually":   eventually,
			"flip":         flip,
			"catalog":      makeCatalog,
			"bucket":       makeBucket(sync.OnceValue(func() *origintest.S3 { return origintest.ServeS3(t) })),
			"certificates": certificates(t),
			"asked":        requested,
			"xattr":        xattr,
		},
	})
}

// canMount reports whether scripts may mount. CI must skip nothing, so the result there is
// true, and the scripts fail if they cannot mount.
func canMount() bool {
	if os.Getenv("CI") == "true" {
		return true
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return os.Geteuid() == 0
}

func condition(name string) (bool, error) {
	switch name {
	case "fuse":
		return canMount(), nil
	case "root":
		return os.Geteuid() == 0, nil
	case "s3":
		return origintest.HasS3(), nil
	case "bash-completion":
		_, err := os.Stat("/usr/share/bash-completion/bash_completion")
		return err == nil, nil
	}
	return false, fmt.Errorf("condition %q is not known", name)
}

// unmountBelow takes away what a script that failed left mounted.
func unmountBelow(t *testing.T, folder string) {
	var left []string
	_, err := fusemount.Find("self", func(e *fusemount.Entry) bool {
		if ui.Within(e.Point, folder) {
			left = append(left, e.Point)
		}
		return false
	})
	if err != nil {
		t.Error(err)
	}
	slices.Reverse(left)
	for _, point := range left {
		t.Errorf("left mounted: %s", point)
		if err := fusemount.Unmount(point, true); err != nil {
			t.Error(err)
		}
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND…")
	}
	var exit *exec.ExitError
	status := 0
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if status != want {
		ts.Fatalf("exit status %d, want %d", status, want)
	}
}

func eventually(ts *testscript.TestScript, _ bool, args []string) {
	fails := args[0] == "!"
	if fails {
		args = args[1:]
	}
	for end := time.Now().Add(patienceOfTests); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := ts.Exec(args[0], args[1:]...); (err != nil) == fails {
			return
		}
	}
	ts.Fatalf("not within %v", patienceOfTests)
}

// certificates returns the command that writes certificates.
func certificates(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		ca, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
		later := time.Now().Add(time.Hour)
		save := func(name string, text []byte) { ts.Check(os.WriteFile(ts.MkAbs(name), text, 0o600)) }
		save("ca.pem", ca.PEM)
		save("other.pem", other.PEM)
		for _, c := range []struct {
			name, host string
			ca         *certtest.Authority
			until      time.Time
		}{
			{"good", "127.0.0.1", ca, later}, {"next", "127.0.0.1", ca, later}, {"other", "127.0.0.1", other, later},
			{"expired", "127.0.0.1", ca, time.Now().Add(-time.Hour)}, {"name", "store.example", ca, later},
		} {
			cert, key := c.ca.Issue(t, c.host, c.until)
			save(c.name+".cert", cert)
			save(c.name+".key", key)
		}
	}
}

// flip flips a bit of the largest file that fits a pattern.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	off, err := strconv.Atoi(args[1])
	ts.Check(err)
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	if err != nil || len(found) == 0 {
		ts.Fatalf("no file fits %s, %v", args[0], err)
	}
	var path string
	var b []byte
	for _, f := range found {
		content, err := os.ReadFile(f)
		ts.Check(err)
		if len(content) >= len(b) {
			path, b = f, content
		}
	}
	b[off] ^= 1
	ts.Check(os.Chmod(path, 0o600))
	ts.Check(os.WriteFile(path, b, 0o600))
}

// requested compares the number of requests for xorbs with the number at its last call.
func requested(ts *testscript.TestScript, neg bool, args []string) {
	const last = "ASKED"
	resp, err := http.Get(strings.TrimSpace(ts.ReadFile(args[0])) + strings.TrimPrefix(serve.StatsPath, "/"))
	ts.Check(err)
	defer resp.Body.Close()
	var stats serve.Stats
	ts.Check(json.NewDecoder(resp.Body).Decode(&stats))
	now := strconv.FormatInt(stats.DataRequests, 10)
	if before := ts.Getenv(last); (before != now) == neg {
		ts.Fatalf("xorbs were asked for %s times, and %s times before", now, before)
	}
	ts.Setenv(last, now)
}

func xattr(ts *testscript.TestScript, neg bool, args []string) {
	value := make([]byte, 64<<10)
	n, err := unix.Getxattr(ts.MkAbs(args[0]), args[1], value)
	ts.Check(err)
	if regexp.MustCompile(args[2]).Match(value[:n]) == neg {
		ts.Fatalf("%s is %s", args[1], value[:n])
	}
}

// makeCatalog makes a catalog whose sweeps do not take hours.
func makeCatalog(ts *testscript.TestScript, _ bool, args []string) {
	store, err := dir.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer store.Close()
	ts.Check(initCatalog(store, args[1:]))
}

// makeBucket returns the command that makes a catalog in a bucket, and sets the environment for
// it.
func makeBucket(server func() *origintest.S3) func(ts *testscript.TestScript, _ bool, args []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		s := server()
		for name, value := range s.Env() {
			ts.Setenv(name, value)
		}
		address := s3.Scheme + s.Bucket() + "/" + ts.Name() + "/" + args[0]
		ts.Setenv(args[0], address)
		store, err := s3.Open(address, s3.Options{Getenv: ts.Getenv})
		ts.Check(err)
		defer store.Close()
		ts.Check(initCatalog(store, args[1:]))
	}
}

// initCatalog makes a catalog with a window and a grace period.
func initCatalog(store origin.WriteStore, times []string) error {
	settings := names.DefaultSettings("", time.Time{})
	for i, d := range []*time.Duration{&settings.Window, &settings.Grace} {
		var err error
		if *d, err = time.ParseDuration(times[i]); err != nil {
			return err
		}
	}
	_, err := writer.Open(context.Background(), store, origin.Pages(store), writer.Options{Settings: settings})
	return err
}
