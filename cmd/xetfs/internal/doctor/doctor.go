// Package doctor looks for reasons why a mount would fail or be slow.
//
//	Machine     the state of this machine and of the origin, as functions that tests replace
//	Examine     all findings about it
//	ServerTime  the time of a web server
//	Finding     one result: what was checked, its state and what to do
package doctor

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The states of a finding.
const (
	OK      = "ok"
	Note    = "note"    // slower or smaller than possible
	Problem = "problem" // a mount would fail
)

// A Finding is the result of one check. The names in JSON are a promise.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

// String returns the finding as one line.
func (f Finding) String() string {
	line := fmt.Sprintf("%-8s %-12s %s", f.State, f.Check, f.Text)
	if f.Advice != "" {
		line += "; " + f.Advice
	}
	return line
}

// A Machine answers the questions of Examine.
type Machine struct {
	Fuse        func() error // nil: this user can mount
	AllowOther  func() bool  // other users can be allowed into a mount
	Release     string       // of the kernel
	CanPass     bool         // this process may register files for passthrough
	OpenFiles   uint64       // limit of open files
	FileSystem  func(path string) (unix.Statfs_t, error)
	CacheDir    string                  // "": none
	CacheErr    error                   // why there can be no disk cache; nil: there can
	NamedCache  bool                    // the user names the place, so a mount fails without it
	Mountpoint  string                  // "": none
	CheckFolder func(path string) error // of the mountpoint
	IsMounted   func(err error) bool    // reports whether an error of CheckFolder means that Source is mounted
	Source      string                  // "": none
	Local       bool                    // Source is a folder of this machine
	Open        func(context.Context) (isEmpty bool, err error)
	ServerTime  func(context.Context) (time.Time, error) // nil: no web server
	Now         func() time.Time
	NoRanges    error // kind of the error of a server without ranges
}

// leastFiles is the limit of open files that a busy mount needs.
const leastFiles = 4096

// leastFree is the free space that a useful cache needs, in bytes.
const leastFree = 1 << 30

// maxSkew is the largest difference of clocks that servers with signed requests accept.
const maxSkew = 5 * time.Minute

// Examine runs all checks that apply.
func Examine(ctx context.Context, m Machine) []Finding {
	all := []Finding{m.fuse()}
	if all[0].State == OK {
		all = append(all, m.allowOther())
	}
	all = append(all, m.passthrough(), m.openFiles())
	if m.CacheDir != "" || m.CacheErr != nil {
		all = append(all, m.cache()...)
	}
	if m.Mountpoint != "" {
		all = append(all, m.mountpoint())
	}
	if m.Source != "" {
		all = append(all, m.origin(ctx))
		if m.ServerTime != nil {
			all = append(all, m.clock(ctx))
		}
	}
	return all
}

func good(check, format string, args ...any) Finding {
	return Finding{Check: check, State: OK, Text: fmt.Sprintf(format, args...)}
}

// failed returns the finding of an error. Its text has the advice behind a semicolon, or there is
// a general one.
func failed(check string, err error, advice string) Finding {
	text, own, has := strings.Cut(err.Error(), "; ")
	if has {
		advice = own
	}
	return Finding{Check: check, State: Problem, Text: text, Advice: advice}
}

func (m Machine) fuse() Finding {
	if err := m.Fuse(); err != nil {
		return failed("fuse", err, "load the kernel module (modprobe fuse), or use xetfs get")
	}
	return good("fuse", "this user can mount")
}

func (m Machine) allowOther() Finding {
	if m.AllowOther() {
		return good("fuse.conf", "--allow-other works")
	}
	return Finding{"fuse.conf", Note, "other users cannot use a mount of this user",
		"for --allow-other, add the line user_allow_other to /etc/fuse.conf"}
}

func (m Machine) passthrough() Finding {
	var major, minor int
	if _, err := fmt.Sscanf(m.Release, "%d.%d", &major, &minor); err != nil || major < 6 || major == 6 && minor < 9 {
		return Finding{"passthrough", Note, fmt.Sprintf("Linux %s has no passthrough, so cached files are slower", m.Release),
			"use Linux 6.9 or newer"}
	}
	if !m.CanPass {
		return Finding{"passthrough", Note, "passthrough needs CAP_SYS_ADMIN, so cached files are slower", "mount as root with that capability, outside of user namespaces"}
	}
	return good("passthrough", "the kernel can read cached files directly")
}

// HasSysAdmin reports whether this process has CAP_SYS_ADMIN. The kernel counts it for passthrough
// only outside of user namespaces: there, all IDs map to themselves.
func HasSysAdmin() bool {
	var data [2]unix.CapUserData // version 3 has two words
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	ids, idsErr := os.ReadFile("/proc/self/uid_map")
	isMapped := idsErr == nil && !slices.Equal(strings.Fields(string(ids)), []string{"0", "0", "4294967295"})
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0 && !isMapped
}

func (m Machine) openFiles() Finding {
	if m.OpenFiles < leastFiles {
		return Finding{"limits", Problem, fmt.Sprintf("only %d open files are allowed", m.OpenFiles),
			fmt.Sprintf("raise the limit to %d or more (ulimit -n, or LimitNOFILE of the unit)", leastFiles)}
	}
	return good("limits", "%d open files are allowed", m.OpenFiles)
}

// networkTypes are the types of file systems that are shared by several machines.
var networkTypes = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.V9FS_MAGIC: "9p",
	unix.FUSE_SUPER_MAGIC: "FUSE", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS",
}

func (m Machine) cache() []Finding {
	if m.CacheErr != nil {
		f := failed("cache", m.CacheErr, "name another folder with --cache-dir")
		if !m.NamedCache {
			f.State = Note
		}
		return []Finding{f}
	}
	st, err := m.FileSystem(m.CacheDir)
	if err != nil {
		return []Finding{failed("cache", fmt.Errorf("%s: %w", m.CacheDir, err), "name another folder with --cache-dir")}
	}
	place := good("cache", "%s is on a local file system", m.CacheDir)
	if name, ok := networkTypes[int64(st.Type)]; ok { //nolint:unconvert // an int32 on some machines
		place = Finding{"cache", Problem, fmt.Sprintf("%s is on a network file system (%s)", m.CacheDir, name),
			"name a folder on a local disk with --cache-dir"}
	}
	free := int64(st.Bavail) * st.Frsize //nolint:gosec // no file system has 2^63 bytes
	space := good("space", "%d MiB are free for the cache", free>>20)
	if free < leastFree {
		space = Finding{"space", Problem, fmt.Sprintf("%s has %d MiB of free space", m.CacheDir, free>>20),
			"make room, or name another folder with --cache-dir"}
	}
	return []Finding{place, space}
}

func (m Machine) mountpoint() Finding {
	err := m.CheckFolder(m.Mountpoint)
	switch {
	case err != nil && m.IsMounted(err):
		return good("mountpoint", "%s shows SOURCE already; xetfs status has its figures", m.Mountpoint)
	case err != nil:
		return failed("mountpoint", err, "choose another folder")
	}
	return good("mountpoint", "%s can be mounted on", m.Mountpoint)
}

// origin opens SOURCE. A server without ranges and a refused token have advice of their own.
func (m Machine) origin(ctx context.Context) Finding {
	isEmpty, err := m.Open(ctx)
	switch {
	case err == nil && isEmpty:
		return Finding{"origin", Note, m.Source + " has no shard, so the mount would be empty", "publish a folder into it (xetfs publish), or choose another SOURCE"}
	case err == nil:
		return good("origin", "%s answers", m.Source)
	case m.Local:
		return failed("origin", err, "name a folder with shards and xorbs that this user can read, or an address")
	case m.NoRanges != nil && errors.Is(err, m.NoRanges):
		return failed("ranges", err, "use a server that answers range requests, or xetfs serve")
	case errors.Is(err, iofs.ErrPermission):
		return failed("token", err, "renew the token, and set it as xetfs help origins describes")
	}
	return failed("origin", err, "check the address and the network, or the proxy in HTTPS_PROXY")
}

// clock compares the time of this machine with that of the server. Certificates, tokens and signed
// requests fail if they differ.
func (m Machine) clock(ctx context.Context) Finding {
	at, err := m.ServerTime(ctx)
	if err != nil {
		return Finding{Check: "clock", State: Note, Text: fmt.Sprintf("the clock was not compared: %v", err)}
	}
	skew := m.Now().Sub(at).Round(time.Second)
	if skew.Abs() > maxSkew {
		return Finding{"clock", Problem, fmt.Sprintf("the clock differs by %v from that of the server", skew.Abs()),
			"set the clock (timedatectl set-ntp true)"}
	}
	return good("clock", "it agrees with that of the server")
}

// ServerTime returns the Date of the web server at an address. It sends no token.
func ServerTime(ctx context.Context, address string, limit time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return time.Time{}, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the address
		}
		return time.Time{}, err
	}
	answer.Body.Close()
	at, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		err = errors.New("the server sends no time")
	}
	return at, err
}
