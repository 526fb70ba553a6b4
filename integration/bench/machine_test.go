package bench

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A machine is what figures depend on beside the program.
type machine struct {
	Date    string   `json:"date"`
	Command string   `json:"command"`
	Commit  string   `json:"commit"`
	CPU     string   `json:"cpu"`
	Cores   int      `json:"cores"`
	Memory  string   `json:"memory"`
	Kernel  string   `json:"kernel"`
	Go      string   `json:"go"`
	Encoder string   `json:"encoder"`
	SHA256  float64  `json:"sha256"` // MB/s of one core, before anything else is measured
	Disk    string   `json:"disk"`   // the file system of temporary files: the row called ext4
	Peers   []string `json:"peers"`
	Load    string   `json:"load"` // runnable processes, the last minute: before and after
	start   time.Time
}

// thisMachine describes the machine before anything is measured.
func thisMachine(t *testing.T) machine {
	t.Helper()
	m := machine{
		Date:    time.Now().UTC().Format("2006-01-02 15:04 MST"),
		Commit:  said("git", "describe", "--always", "--dirty"),
		CPU:     strings.TrimSpace(find("/proc/cpuinfo", `(?m)^model name\s*: (.*)$`)),
		Cores:   runtime.NumCPU(),
		Memory:  find("/proc/meminfo", `(?m)^MemTotal:\s*(\d+) kB`),
		Kernel:  said("uname", "-r"),
		Go:      runtime.Version(),
		Encoder: encoder(t),
		SHA256:  rateSHA256(),
		Disk:    diskOf(t.TempDir()),
		Load:    find("/proc/loadavg", `^(\S+)`),
		start:   time.Now(),
	}
	for _, peer := range []struct{ name, program, flag, version string }{
		{"erofs-utils", "mkfs.erofs", "-V", `([0-9][0-9.]+)`},
		{"squashfs-tools", "mksquashfs", "-version", `version ([0-9.]+)`},
		{squashfuse, "squashfuse_ll", "-V", `squashfuse ([0-9.]+)`},
		{desync, "desync", "version", `(v?[0-9]+\.[0-9.]+)`},
		{hfMount, os.Getenv(hfMountEnv), "--version", `([0-9]+\.[0-9.]+)`},
	} {
		out, _ := exec.Command(peer.program, peer.flag).CombinedOutput() // some say it and fail
		if got := regexp.MustCompile(peer.version).FindSubmatch(out); got != nil {
			m.Peers = append(m.Peers, peer.name+" "+string(got[1]))
		} else if _, err := exec.LookPath(peer.program); err == nil {
			m.Peers = append(m.Peers, peer.name)
		}
	}
	if peer := strings.Fields(os.Getenv(xetCoreEnv)); len(peer) > 0 {
		m.Peers = append(m.Peers, fmt.Sprintf("%s (%s)", xetCore, filepath.Base(peer[0])))
	}
	return m
}

// rateSHA256 is what packing cannot go beyond: some processors have instructions for
// SHA-256, and others need four times as long.
func rateSHA256() float64 {
	b, n := make([]byte, 1<<20), 0
	start := time.Now()
	for time.Since(start) < 200*time.Millisecond {
		sha256.Sum256(b)
		n += len(b)
	}
	return float64(n) / time.Since(start).Seconds() / 1e6
}

// end is called when all is measured.
func (m *machine) end(t *testing.T) {
	t.Helper()
	m.Load = fmt.Sprintf("%s before, %s after", m.Load, find("/proc/loadavg", `^(\S+)`))
}

// String is a few lines of text that are Markdown too.
func (m machine) String() string {
	kib := 0
	fmt.Sscan(m.Memory, &kib) //nolint:errcheck // 0 then
	return fmt.Sprintf(`* %s, commit %s, %s, stores by %s
* %s, %d cores, %d GiB of memory, SHA-256 at %s MB/s on one core, Linux %s, temporary files on %s
* peers: %s
* load: %s
* command: %s
`, m.Date, m.Commit, m.Go, m.Encoder, m.CPU, m.Cores, (kib+1<<19)>>20, number(m.SHA256), m.Kernel, m.Disk, strings.Join(m.Peers, ", "), m.Load, "`"+m.Command+"`")
}

// title is one line for the chart.
func (m machine) title() string {
	return fmt.Sprintf("%s, %d cores, %s, commit %s", m.CPU, m.Cores, m.Date, m.Commit)
}

// said is the first line of what a program prints, empty if it fails.
func said(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

// find is the first group of a pattern in a file, empty if it is not there.
func find(path, pattern string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	got := regexp.MustCompile(pattern).FindSubmatch(b)
	if got == nil {
		return ""
	}
	return string(got[1])
}

// diskOf names the file system of a folder, as far as it matters here.
func diskOf(dir string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return err.Error()
	}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.TMPFS_MAGIC:
		return "tmpfs: not what the column ext4 says"
	}
	return fmt.Sprintf("a file system of type %#x: not what the column ext4 says", s.Type)
}
