package web_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/web"
)

// proxyEnv makes a process send one request through the proxy of its environment. A process
// reads that variable only once.
const proxyEnv = "XETFS_TEST_PROXY"

// The error of a proxy that refuses a connection differs from that of a server. A retry follows
// only where it may help.
func TestProxy(t *testing.T) {
	if os.Getenv(proxyEnv) != "" {
		_, err := open(t, "https://example.org/store", web.Options{}).Size(t.Context(), xorbKey)
		fmt.Printf("%d tries: %v\n", tries(err), err)
		return
	}
	for code, want := range map[int]string{
		http.StatusProxyAuthRequired:  "1 tries: %q: origin unavailable: the proxy says 407 Proxy Authentication Required",
		http.StatusForbidden:          "1 tries: %q: origin unavailable: the proxy says 403 Forbidden",
		http.StatusBadGateway:         "6 tries: %q: origin unavailable: the proxy says 502 Bad Gateway",
		http.StatusServiceUnavailable: "6 tries: %q: origin unavailable: the proxy says 503 Service Unavailable",
	} {
		proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		cmd := exec.Command(os.Args[0], "-test.run=^TestProxy$")
		cmd.Env = append(os.Environ(), proxyEnv+"=1", "HTTPS_PROXY=http://user:secret@"+strings.TrimPrefix(proxy, "http://"), "NO_PROXY=", "no_proxy=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, _, _ := strings.Cut(string(out), "\n"); got != fmt.Sprintf(want, xorbKey) {
			t.Errorf("a proxy that says %d: %s", code, got)
		}
	}
}
