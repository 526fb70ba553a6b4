package loopback

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestIsAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"localhost:80": true, "127.0.0.1:0": true, "127.3.2.1:1": true, "[::1]:9": true,
		"": false, "localhost": false, ":80": false, "0.0.0.0:80": false, "[::]:80": false,
		"10.0.0.1:80": false, "localhost.example:80": false, "example.com:80": false, "::1:80": false,
	} {
		if got := IsAddress(address); got != want {
			t.Errorf("%q: %v", address, got)
		}
	}
}

func TestListen(t *testing.T) {
	l, err := Listen(t.Context(), "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !IsAddress(l.Addr().String()) {
		t.Errorf("it listens at %s", l.Addr())
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "localhost:"+port); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the same port again: %v", err)
	}
}
