package harness

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A RemoteServer is one `xetfs serve`, a process of its own.
type RemoteServer struct {
	t    testing.TB
	URL  string // ends with a slash
	Cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// ServeRemote serves the objects of a store over HTTP until the end of the test.
func ServeRemote(t testing.TB, store string, flags ...string) *RemoteServer {
	t.Helper()
	return ServeHub(t, store, append([]string{"--plain"}, flags...)...)
}

// ServeHub serves the symbols of a store as repositories of the Hub, until the end of the test.
func ServeHub(t testing.TB, store string, flags ...string) *RemoteServer {
	t.Helper()
	args := slices.Concat([]string{"serve", "--listen=127.0.0.1:0"}, flags, []string{store})
	s := &RemoteServer{t: t, Cmd: exec.Command(Program(t), args...), done: make(chan struct{})}
	s.Cmd.Env = Environment()
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	said, err := s.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := new(strings.Builder) // read once the process has ended
	s.Cmd.Stderr = stderr
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	lines.Scan()
	s.URL = lines.Text()
	go func() {
		defer close(s.done)
		io.Copy(io.Discard, said) //nolint:errcheck // it says no more
		s.Cmd.Wait()              //nolint:errcheck // the status says it
	}()
	t.Cleanup(func() {
		if code := s.Stop(); code != 0 || strings.Contains(stderr.String(), "goroutine ") {
			t.Errorf("serve: exit status %d\n%s", code, stderr)
		}
	})
	if !strings.HasPrefix(s.URL, "http://") {
		t.Fatalf("serve says %q", s.URL)
	}
	return s
}

// Stop ends the server and returns its exit status.
func (s *RemoteServer) Stop() int {
	s.Cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
	select {
	case <-s.done:
	case <-time.After(UnmountLimit):
		s.Cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-s.done
	}
	return s.Cmd.ProcessState.ExitCode()
}

// A Traffic counts the answers of a server.
type Traffic struct {
	Requests     int64 `json:"requests"`
	Bytes        int64 `json:"bytes"`
	DataRequests int64 `json:"data_requests"`
	DataBytes    int64 `json:"data_bytes"`
	Waiting      int64 `json:"waiting"`
}

// Hedged returns how many requests were sent twice at most: fetch hedges one of twenty when a
// busy machine answers late. Requests before those of t may leave room for one more.
func (t Traffic) Hedged() int64 { return t.Requests/20 + 1 }

// Traffic returns the totals of the server so far.
func (s *RemoteServer) Traffic() (now Traffic) {
	s.t.Helper()
	answer, err := http.Get(s.URL + "-/stats")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&now); err != nil {
		s.t.Fatal(err)
	}
	return now
}

// Since returns the traffic after before.
func (s *RemoteServer) Since(before Traffic) Traffic {
	s.t.Helper()
	now := s.Traffic()
	return Traffic{
		Requests: now.Requests - before.Requests, Bytes: now.Bytes - before.Bytes,
		DataRequests: now.DataRequests - before.DataRequests, DataBytes: now.DataBytes - before.DataBytes,
		Waiting: now.Waiting,
	}
}

// Behind returns the address of the same store, whose xorbs, and nothing else, wait at a
// gate.
func (s *RemoteServer) Behind(gate *Gate) string {
	s.t.Helper()
	to, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	through := httputil.NewSingleHostReverseProxy(to)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	through.Transport = transport
	through.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".xorb") && gate.Pass(r.Context()) != nil {
			return
		}
		through.ServeHTTP(w, r)
	}))
	s.t.Cleanup(func() {
		gate.Open()
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL + "/"
}

// MountRemote mounts what a server has, without a disk cache, so that all comes over the wire.
func MountRemote(t testing.TB, address string, flags ...string) *Mount {
	t.Helper()
	return MountSource(t, address, append(withoutDisk(t), flags...)...)
}

// withoutDisk is the flag that keeps nothing on disk, if the program has it.
func withoutDisk(t testing.TB) []string {
	t.Helper()
	help, err := exec.Command(Program(t), "mount", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(help), "--cache-dir") {
		return []string{"--cache-dir=off"}
	}
	return nil
}

// Rounds says a time in round trips.
func Rounds(took, delay time.Duration) string {
	return fmt.Sprintf("%v, %.2f round trips", took.Round(100*time.Microsecond), took.Seconds()/delay.Seconds())
}

// Middle returns the median.
func Middle[T cmp.Ordered](values []T) T {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
