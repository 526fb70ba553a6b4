package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui/uitest"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
)

// slowServer reads requests and gives each connection to answer. It returns its address.
func slowServer(t *testing.T, answer func(w io.Writer, r *http.Request) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for requests := bufio.NewReader(c); ; {
					r, err := http.ReadRequest(requests)
					if err != nil || answer(c, r) != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// repeat writes a text again and again until the connection is closed.
func repeat(text string) func(io.Writer, *http.Request) error {
	return func(w io.Writer, _ *http.Request) error {
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// O34: a command ends within its limit, whatever the server does instead of answering. Its exit
// status is that of an unreachable server.
func TestO34_CommandEnds(t *testing.T) {
	drip := func(header string) func(io.Writer, *http.Request) error {
		return func(w io.Writer, r *http.Request) error {
			if _, err := fmt.Fprintf(w, "HTTP/1.1 200 OK\r\n%s\r\n", header); err != nil {
				return err
			}
			return repeat("1\r\nx\r\n")(w, r)
		}
	}
	tests := map[string]func(io.Writer, *http.Request) error{
		"silence":     func(w io.Writer, _ *http.Request) error { select {} },
		"drip":        drip("Transfer-Encoding: chunked\r\n"),
		"endless 103": repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
		"429": func(w io.Writer, _ *http.Request) error {
			_, err := io.WriteString(w, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 99999999\r\nContent-Length: 0\r\n\r\n")
			return err
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			address := slowServer(t, answer)
			codectest.Within(t, codectest.Patience, "openSource", func() {
				s, err := stack.OpenSource(t.Context(), address, stack.Options{
					Budget: stack.DivideMemory(stack.DefaultMemory), Log: slog.New(slog.DiscardHandler),
					Remote: stack.Remote{Limits: fetch.Limits{First: 200 * time.Millisecond, Read: 300 * time.Millisecond}},
				})
				if err == nil {
					s.Close()
				}
				if status := exitStatus(t.Context(), err); status != exitUnreachable {
					t.Errorf("openSource = %v, exit status %d", err, status)
				}
			})
		})
	}
}

// A command names the server that it waits for on a terminal only.
func TestWaitNotice(t *testing.T) {
	if waitNotice(lsCommand(t, new(bytes.Buffer)), "http://host/") != nil {
		t.Error("a notice where there is no terminal")
	}
	terminal, output := uitest.OpenTerminal(t, 80)
	waitNotice(lsCommand(t, terminal), "http://user:secret@host/store?x")("connection refused")
	if got, want := strings.TrimSpace(output()), "xetfs ls: waiting for http://host/store: connection refused"; got != want {
		t.Errorf("the notice is %q, want %q", got, want)
	}
}

// O35: a mount of a web server that ignores ranges is refused with one sentence.
func TestO35_NoRanges(t *testing.T) {
	folder, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if err := origintest.Replace(folder, names.SettingsKey(), []byte("settings")); err != nil {
		t.Fatal(err)
	}
	handler := web.NewHandler(folder, web.HandlerOptions{})
	tests := []struct {
		name, accept string
		drop, refuse bool
	}{
		{"ranges are supported", "", false, false},
		{"ranges are ignored", "", true, true},
		{"ranges are refused", "none", true, true},
		{"small files come whole", "bytes", true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.drop {
					r.Header.Del("Range")
					w = noRanges{w, tt.accept}
				}
				handler.ServeHTTP(w, r)
			}))
			defer front.Close()
			store, err := stack.OpenRemote(front.URL, stack.Remote{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			for _, bare := range []bool{false, true} {
				err := stack.CheckRanges(t.Context(), store, bare)
				if refused := errors.Is(err, origin.ErrNoRanges); refused != tt.refuse || refused && exitStatus(t.Context(), err) != exitMount {
					t.Errorf("bare %t: %v", bare, err)
				}
			}
		})
	}
}

// A noRanges is an answer with another Accept-Ranges.
type noRanges struct {
	http.ResponseWriter
	accept string // "": none
}

func (w noRanges) WriteHeader(status int) {
	w.Header().Del("Accept-Ranges")
	if w.accept != "" {
		w.Header().Set("Accept-Ranges", w.accept)
	}
	w.ResponseWriter.WriteHeader(status)
}
