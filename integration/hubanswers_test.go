package integration

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

func isRevision(r *http.Request) bool  { return strings.Contains(r.URL.Path, "/revision/") }
func isTree(r *http.Request) bool      { return strings.Contains(r.URL.Path, "/tree/") }
func isReadToken(r *http.Request) bool { return strings.Contains(r.URL.Path, "/xet-read-token/") }

const (
	saysAbsent  = "no such repository, or a private one; check the name, and for a private one set HF_TOKEN, or run hf auth login"
	saysDenied  = "the Hub says 403 Forbidden; check the permissions of the token at http://"
	saysPage    = "it is a web page; a browser shows whether the address is wrong, or a login is needed"
	saysError   = "the server says 500 Internal Server Error, 6 times"
	saysLimited = "the Hub allows no more requests for 24h0m0s; a token (HF_TOKEN) raises the limit"
	saysBusy    = "the server says 429 Too Many Requests"
	saysRange   = "the server says 416 Requested Range Not Satisfiable"
	saysRefused = "the transfer server says 401 or 403 to a new address"
	saysEnd     = "it ends here"
)

// badAnswers are answers of the Hub and of the CAS API, and what a user gets. TestHubOrigins has
// more forms of them, in virtual time.
var badAnswers = []struct {
	name   string
	hits   func(r *http.Request) bool
	fault  answerFault
	status int           // exit status of xetfs cat
	says   string        // part of its line, and of the log of a mount
	errno  syscall.Errno // of a read in a mount that began with right answers; 0: it sends no such request
}{
	{"401 of the repository", isRevision, status(401), 3, saysAbsent, 0},
	{"403 of the repository", isRevision, status(403), 5, saysDenied, 0},
	{"404 of the repository", isRevision, status(404), 3, saysAbsent, 0},
	{"416 of the repository", isRevision, status(416), 4, saysRange, 0},
	{"429 of the repository", isRevision, status(429, "Retry-After", "86400"), 4, saysLimited, 0},
	{"500 of the repository", isRevision, status(500), 4, saysError, 0},
	{"web page of the repository", isRevision, loginPage, 4, saysPage, 0},
	{"absent revision", isRevision, status(404, "X-Error-Code", "RevisionNotFound"), 3, "no branch, tag or commit main; check the part after @", 0},
	{"gated repository", isRevision, status(403, "X-Error-Code", "GatedRepo"), 5, "it is gated: request access at http://", 0},

	{"401 of the listing", isTree, status(401), 3, saysAbsent, 0},
	{"403 of the listing", isTree, status(403), 5, saysDenied, 0},
	{"404 of the listing", isTree, status(404), 3, saysAbsent, 0},
	{"416 of the listing", isTree, status(416), 4, saysRange, 0},
	{"429 of the listing", isTree, status(429, "Retry-After", "86400"), 4, saysLimited, 0},
	{"web page of the listing", isTree, loginPage, 4, saysPage, 0},

	{"401 of the token", isReadToken, status(401), 4, saysAbsent, syscall.EIO},
	{"403 of the token", isReadToken, status(403), 5, saysDenied, syscall.EACCES},
	{"404 of the token", isReadToken, status(404), 4, saysAbsent, syscall.EIO},
	{"429 of the token", isReadToken, status(429, "Retry-After", "86400"), 4, saysLimited, syscall.EIO},
	{"web page of the token", isReadToken, loginPage, 4, saysPage, syscall.EIO},

	{"401 of the plan", isPlan, status(401), 5, "the server says 401 Unauthorized; check the token, and that it may read the repository", syscall.EACCES},
	{"403 of the plan", isPlan, status(403), 5, "the server says 403 Forbidden; the token may not read the repository", syscall.EACCES},
	{"404 of the plan", isPlan, status(404), 4, "no such object: the server has no plan of it", syscall.EIO},
	{"416 of the plan", isPlan, status(416), 4, saysRange, syscall.EIO},
	{"429 of the plan", isPlan, status(429, "Retry-After", "86400"), 4, saysBusy, syscall.EIO},
	{"500 of the plan", isPlan, status(500), 4, saysError, syscall.EIO},
	{"web page of the plan", isPlan, loginPage, 4, saysPage, syscall.EIO},
	{"wrong sums of the plan", isPlan, edited(`"unpacked_length":`, `"unpacked_length":1`), 6, "term 0 has a length that its chunks cannot have", syscall.EIO},
	{"short terms of the plan", isPlan, edited(`"terms":[{`, `"terms":[],"ignored":[{`), 6, "a file with a hash has no terms", syscall.EIO},
	{"foreign xorb of the plan", isPlan, foreignPlan, 6, "its chunks make file", syscall.EIO},

	{"401 of the xorb", isTransfer, status(401), 5, saysRefused, syscall.EIO},
	{"403 of the xorb", isTransfer, status(403), 5, saysRefused, syscall.EIO},
	{"404 of the xorb", isTransfer, status(404), 4, "no such object", syscall.EIO},
	{"416 of the xorb", isTransfer, status(416), 6, saysEnd, syscall.EIO},
	{"429 of the xorb", isTransfer, status(429, "Retry-After", "86400"), 4, saysBusy, syscall.EIO},
	{"web page of the xorb", isTransfer, loginPage, 4, saysPage, syscall.EIO},

	{"401 of the content", isContent, status(401), 4, saysAbsent, syscall.EIO},
	{"403 of the content", isContent, status(403), 5, saysDenied, syscall.EIO},
	{"404 of the content", isContent, status(404), 4, saysAbsent, syscall.EIO},
	{"416 of the content", isContent, status(416), 6, saysEnd, syscall.EIO},
	{"429 of the content", isContent, status(429, "Retry-After", "86400"), 4, saysLimited, syscall.EIO},
	{"500 of the content", isContent, status(500), 4, saysError, syscall.EIO},
	{"web page of the content", isContent, loginPage, 4, saysPage, syscall.EIO},
}

// A user sees each bad answer as one exit status, one line and one errno. Files read before still
// have their bytes, and the same mount reads right bytes after the fault.
func TestHubAnswers(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	content := map[string][]byte{"inxet": harness.Noise(1, 300_000), "other": harness.Noise(2, 300_000), "ingit": []byte("small"), "seen": []byte("seen")}
	for name, b := range content {
		harness.WriteFile(t, filepath.Join(folder, name), b)
	}
	harness.Publish(t, store, "org/m", folder)
	served := serveHub(t, store)
	for _, tt := range badAnswers {
		if tt.status == 4 && !*fullSize {
			continue // it ends after all retries, half a minute; TestHubOrigins has it in virtual time
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := newFaultProxy(t, served, tt.hits, tt.fault)
			env := harness.Environment("HF_ENDPOINT="+server.url, "HF_HOME="+t.TempDir(), "HF_TOKEN=", "XDG_CACHE_HOME="+t.TempDir())
			name := "inxet"
			if strings.HasSuffix(tt.name, "content") {
				name = "ingit"
			}
			server.on.Store(true)
			cmd := exec.Command(harness.Program(t), "cat", "hf://org/m", name)
			cmd.Env = env
			out, err := cmd.Output()
			said := harness.StderrOf(err)
			if got := cmd.ProcessState.ExitCode(); got != tt.status || !strings.Contains(said, tt.says) || len(out) > 0 {
				t.Errorf("cat: exit status %d, %d bytes, %s; want %d, %q", got, len(out), said, tt.status, tt.says)
			}
			if strings.Count(strings.TrimSpace(said), "\n") > 0 || strings.Contains(said, "ignature") {
				t.Errorf("the error has several lines, or a signature: %s", said)
			}
			if tt.errno == 0 || !*fullSize {
				return // a mount waits up to a minute before it asks the server again
			}
			server.on.Store(false)
			mount := exec.Command(harness.Program(t), harness.MountArgs("hf://org/m", t.TempDir(), "--follow=off")...)
			mount.Env = env
			m := harness.StartCommand(t, mount, "hf://org/m", mount.Args[len(mount.Args)-1])
			m.Log.After(harness.Event("mount_ready"))
			m.Shows(t, "seen", content["seen"])
			server.on.Store(true)
			_, err = os.ReadFile(m.Path(name))
			if !errors.Is(err, tt.errno) {
				t.Errorf("read: %v, want %v", err, tt.errno)
			}
			m.Log.After(func(l harness.Line) bool { return strings.Contains(l.Text("err"), tt.says) })
			m.Shows(t, "seen", content["seen"])
			server.on.Store(false)
			harness.WaitUntil(t, "the file is read", func() bool {
				b, err := os.ReadFile(m.Path(name))
				return err == nil && string(b) == string(content[name])
			})
		})
	}
}

// A faultProxy passes requests on to a server, or answers them with a fault.
type faultProxy struct {
	url string
	on  atomic.Bool
}

// newFaultProxy returns a proxy before a server of the Hub.
func newFaultProxy(t *testing.T, server string, hits func(*http.Request) bool, fault answerFault) *faultProxy {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the server names its Xet server
	}}
	p := &faultProxy{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.on.Load() && hits(r) {
			fault(w, r, pass)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// edited replaces the first occurrence of a text in the right answer.
func edited(old, with string) answerFault {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		r.Header.Del("Accept-Encoding")
		a := right(r, pass)
		a.Header().Del("Content-Length")
		send(w, a, []byte(strings.Replace(a.Body.String(), old, with, 1)))
	}
}

// foreignPlan answers with the plan of the file other, which has the same size.
func foreignPlan(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	tree := httptest.NewRequest(http.MethodGet, "http://"+r.Host+"/api/models/org/m/tree/main?recursive=true", nil)
	var entries []struct{ Path, XetHash string }
	_ = json.Unmarshal(right(tree, pass).Body.Bytes(), &entries)
	for _, e := range entries {
		if e.Path == "other" {
			r.URL.Path = r.URL.Path[:strings.LastIndexByte(r.URL.Path, '/')+1] + e.XetHash
		}
	}
	pass.ServeHTTP(w, r)
}
