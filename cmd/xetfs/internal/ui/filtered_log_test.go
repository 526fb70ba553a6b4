package ui

import (
	"bytes"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// TestFilteredLog shows that bytes behind the answers of a server reach no log.
func TestFilteredLog(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conns atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			go func() {
				defer c.Close()
				for b := make([]byte, 4<<10); ; {
					if _, err := c.Read(b); err != nil {
						return
					}
					io.WriteString(c, "HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nContent-Range: bytes 0-9/100\r\n\r\n0123456789\x1b[31mmore\r\n")
				}
			}()
		}
	}()
	var said bytes.Buffer
	log.SetOutput(FilteredLog{Writer: &said})
	defer log.SetOutput(os.Stderr)
	s, err := web.Open("http://"+l.Addr().String(), web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := make([]byte, 10)
	for try := 0; conns.Load() < 4 && try < 1000; try++ { // a connection with more on it is closed, soon
		if err := s.ReadAt(t.Context(), names.XorbKey(codec.Hash{1}), p, 0); err != nil || string(p) != "0123456789" {
			t.Fatalf("ReadAt = %q, %v", p, err)
		}
		time.Sleep(time.Millisecond)
	}
	log.Print("something else")
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "something else\n") {
		t.Errorf("the log says %q after %d connections", got, conns.Load())
	}
}
