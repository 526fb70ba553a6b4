package main

import (
	"io"
	"net"
	"strings"
	"testing"
)

func TestServePortInUse(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var stderr strings.Builder
	status := run(t.Context(), []string{"serve", "--plain", "--listen", l.Addr().String(), t.TempDir()}, nil, io.Discard, &stderr)
	want := "xetfs serve: --listen " + l.Addr().String() + ": address already in use; name another port, or 0 for a free one\n"
	if status != exitFailed || stderr.String() != want {
		t.Errorf("status %d, %q; want %d, %q", status, stderr.String(), exitFailed, want)
	}
}
