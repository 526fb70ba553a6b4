package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// openConnection opens /dev/fuse and mounts it at a new folder. Another process serves it.
func openConnection(t *testing.T) (dir string, connection *os.File) {
	t.Helper()
	harness.NeedFuse(t)
	if unix.Geteuid() != 0 {
		t.Skip("only root may mount without fusermount3")
	}
	connection, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	dir = t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=65534,group_id=65534,allow_other,default_permissions", connection.Fd())
	if err := unix.Mount("passed", dir, "fuse.xetfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }) //nolint:errcheck // usually gone
	return dir, connection
}

// unprivileged returns a command of user 65534 without capabilities, and without a way to get any. It
// has a new folder as its HOME, and connection as descriptor 3.
func unprivileged(t *testing.T, connection *os.File, args ...string) *exec.Cmd {
	t.Helper()
	setpriv := harness.NeedTool(t, "setpriv")
	cmd := exec.Command(setpriv, append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
		"--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", harness.Program(t)}, args...)...)
	cmd.Env = []string{"PATH=/nowhere", "XDG_STATE_HOME=/nowhere", "XDG_CACHE_HOME=/nowhere", "XETFS_TEST_MARK=" + os.Getenv("XETFS_TEST_MARK")}
	cmd.ExtraFiles = []*os.File{connection}
	return cmd
}

// readable lets every user read below a folder of a test, and enter the folders above it.
func readable(t *testing.T, path string) {
	t.Helper()
	harness.Run(t, "", "chmod", "-R", "a+rX", path)
	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// K32: a process without privileges serves a mount that another process made, until that one
// unmounts.
func TestK32_PassedDescriptor(t *testing.T) {
	source, file := bigStore(t, 1<<20)
	readable(t, source)
	readable(t, harness.Program(t))
	for _, form := range []string{"foreground", "background"} {
		t.Run(form, func(t *testing.T) {
			dir, connection := openConnection(t)
			mark := "XETFS_TEST_MARK=" + dir
			t.Setenv("XETFS_TEST_MARK", dir)
			args := []string{"mount", source, "/dev/fd/3"}
			if form == "foreground" {
				args = append([]string{"mount", "--foreground", "--log-format=json"}, args[1:]...)
				m := harness.StartCommand(t, unprivileged(t, connection, args...), source, dir)
				m.Ended = true
				defer func() {
					if code, ok := m.Wait(harness.Patience); !ok || code != 0 {
						t.Errorf("after the unmount: exit status %d, ended %t", code, ok)
					}
				}()
			} else if out, err := unprivileged(t, connection, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			connection.Close() // the server alone has it
			readWhole(t, filepath.Join(dir, "by-hash", file.Hash.String()), fmt.Sprintf("%x", file.SHA256))
			if err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW); err != nil {
				t.Error(err)
			}
			if form == "background" {
				harness.WaitUntil(t, "no process is left", func() bool { return len(markedProcesses(mark)) == 0 })
			}
		})
	}
}

// K32: SIGTERM ends the server. Readers of its mount get an error, and the process that mounted
// removes the mount.
func TestK32_PassedTerminated(t *testing.T) {
	source, file := bigStore(t, 1<<20)
	readable(t, source)
	readable(t, harness.Program(t))
	dir, connection := openConnection(t)
	m := harness.StartCommand(t, unprivileged(t, connection, "mount", "--foreground", "--log-format=json", source, "/dev/fd/3"), source, dir)
	m.Ended = true
	connection.Close()
	readWhole(t, filepath.Join(dir, "by-hash", file.Hash.String()), fmt.Sprintf("%x", file.SHA256))
	m.Signal(syscall.SIGTERM)
	if code, ok := m.Wait(harness.Patience); !ok || code != 0 {
		t.Errorf("exit status %d, ended %t", code, ok)
	}
	if err := unix.Statfs(dir, new(unix.Statfs_t)); err != unix.ENOTCONN {
		t.Errorf("the mount says %v, want ENOTCONN", err)
	}
}

// K32: the scripts of the sidecar manifest. A server that was killed gets a new mount, and SIGTERM
// leaves none.
func TestK32_Sidecar(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	if unix.Geteuid() != 0 {
		t.Skip("only root may mount without fusermount3")
	}
	python := harness.NeedTool(t, "/usr/bin/python3") // that other users may run
	source, file := bigStore(t, 1<<20)
	readable(t, source)
	readable(t, harness.Program(t))
	pod := t.TempDir()
	dir, end := filepath.Join(pod, "models"), startMounter(t, python, pod)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }) //nolint:errcheck // usually gone
	for range 2 {
		cmd := unprivileged(t, nil, harness.MountArgs(source, "/dev/fd/3")...)
		cmd.Args = slices.Insert(cmd.Args, slices.Index(cmd.Args, harness.Program(t)), python, filepath.Join(pod, "receive.py"))
		cmd.ExtraFiles = nil
		m := harness.StartCommand(t, cmd, source, dir)
		m.Ended = true
		m.Log.After(harness.Event("mount_ready"))
		readWhole(t, filepath.Join(dir, "by-hash", file.Hash.String()), fmt.Sprintf("%x", file.SHA256))
		m.Signal(syscall.SIGKILL)
		if _, ok := m.Wait(harness.UnmountLimit); !ok {
			t.Fatal("it was killed and still runs")
		}
	}
	end()
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// startMounter puts the scripts of the sidecar manifest into a folder, as the volume of the pod. It
// starts the script that mounts. end terminates it.
func startMounter(t *testing.T, python, pod string) (end func()) {
	t.Helper()
	manifest, err := os.ReadFile("../cmd/xetfs/packaging/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range regexp.MustCompile(`(?m)^  (\S+\.py): \|\n((?:    .*\n)+)`).FindAllStringSubmatch(string(manifest), -1) {
		text := strings.NewReplacer("\n    ", "\n", `"/pod/`, `"`+pod+"/").Replace("\n" + script[2])
		harness.WriteFile(t, filepath.Join(pod, script[1]), []byte(text))
	}
	readable(t, pod)
	cmd := exec.Command(python, filepath.Join(pod, "send.py"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // the status says it
		if err := cmd.Wait(); err != nil {
			t.Errorf("send.py: %v", err)
		}
	})
	t.Cleanup(end)
	return end
}

// K32: a descriptor that is no mount is one sentence, and status 7.
func TestK32_NoPassedDescriptor(t *testing.T) {
	source, _ := bigStore(t, 1000)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for place, want := range map[string]string{
		"/dev/fd/3":   "/dev/fd/3: the descriptor is no open /dev/fuse; mount(2) names the right one as fd=N",
		"/dev/fd/900": "/dev/fd/900: this process has no such descriptor; let the process that mounted pass it on",
	} {
		cmd := exec.Command(harness.Program(t), "mount", source, place)
		cmd.Env = harness.Environment()
		cmd.ExtraFiles = []*os.File{null}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 7 || string(out) != "xetfs mount: "+want+"\n" {
			t.Errorf("%s: exit status %d: %s", place, code, out)
		}
	}
}

// imageRoot makes what the recipe of the container image has, FROM scratch: the program, the
// certificates and working folders. The recipe is compared with it.
func imageRoot(t *testing.T) (root string) {
	t.Helper()
	recipe, err := os.ReadFile("../cmd/xetfs/packaging/release/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, image, _ := strings.Cut(string(recipe), "FROM scratch\n")
	root = t.TempDir()
	for _, row := range regexp.MustCompile(`(?m)^COPY .*?(\S+) (/\S+)$`).FindAllStringSubmatch(image, -1) {
		source, target := row[1], filepath.Join(root, row[2])
		if strings.HasPrefix(source, "dist/") {
			source = harness.Program(t)
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		harness.Run(t, "", "cp", source, target)
	}
	for _, row := range regexp.MustCompile(`(?m)^WORKDIR (/\S*)$`).FindAllStringSubmatch(image, -1) {
		if err := os.MkdirAll(filepath.Join(root, row[1]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if files := harness.FilesBelow(t, root); len(files) != 2 || !strings.Contains(image, `ENTRYPOINT ["/usr/bin/xetfs"]`) {
		t.Fatalf("the image has %q", files)
	}
	return root
}

// The container image mounts. It also serves a passed descriptor as a user without capabilities and
// with no_new_privs. There is nothing but the image: no shell, no /proc and no folder to write to.
func TestK32_Image(t *testing.T) {
	harness.NeedFuse(t)
	if harness.RaceEnabled {
		t.Skip("the image has no libraries, and the race detector needs some")
	}
	source, file := bigStore(t, 1<<20)
	address := harness.ServeRemote(t, source).URL
	root := imageRoot(t)
	readable(t, root)
	sum := fmt.Sprintf("%x", file.SHA256)
	t.Run("descriptor", func(t *testing.T) {
		dir, connection := openConnection(t)
		cmd := exec.Command(harness.NeedTool(t, "setpriv"), "--no-new-privs", "chroot", "--userspec=65534:65534", "--groups=", root,
			"/usr/bin/xetfs", "mount", "--foreground", "--log-format=json", "--cache-dir=off", address, "/dev/fd/3")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.ExtraFiles = []*os.File{connection}
		m := harness.StartCommand(t, cmd, address, dir)
		m.Ended = true
		connection.Close() // the server alone has it
		readWhole(t, filepath.Join(dir, "by-hash", file.Hash.String()), sum)
		if status := processStatus(t, m.Pid()); status["NoNewPrivs"] != "1" || status["CapEff"] != "0000000000000000" || !strings.HasPrefix(status["Uid"], "65534") {
			t.Errorf("the server has user %s, capabilities %s, NoNewPrivs %s", status["Uid"], status["CapEff"], status["NoNewPrivs"])
		}
		if err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW); err != nil {
			t.Error(err)
		}
		if code, ok := m.Wait(harness.Patience); !ok || code != 0 {
			t.Errorf("after the unmount: exit status %d, ended %t", code, ok)
		}
	})
	t.Run("mount", func(t *testing.T) {
		if os.Getenv("XETFS_TEST_PRIVATE_MOUNTS") == "" {
			t.Skip("it needs a mount namespace of its own")
		}
		// A container runtime adds these to every image.
		for _, name := range []string{"dev", "proc"} {
			target := filepath.Join(root, name)
			if err := os.Mkdir(target, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("/"+name, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) }) //nolint:errcheck // ends with the namespace
		}
		dir := filepath.Join(root, "mnt")
		cmd := exec.Command(harness.NeedTool(t, "chroot"), root, "/usr/bin/xetfs", "mount", "--foreground", "--log-format=json", address, "/mnt")
		cmd.Env = []string{}
		m := harness.StartCommand(t, cmd, address, dir)
		if _, ok := m.Log.Wait(harness.MountLimit, harness.Event("mount_ready")); !ok {
			t.Fatalf("the image did not mount:\n%s", m.Log)
		}
		readWhole(t, filepath.Join(dir, "by-hash", file.Hash.String()), sum)
		m.Unmount()
	})
}

// processStatus returns the fields of /proc/PID/status.
func processStatus(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}
