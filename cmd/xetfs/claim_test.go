package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// F54: every command that reads a whole file compares it with the SHA-256 in its name.
func TestF54_CommandsCompareSHA256(t *testing.T) {
	store := t.TempDir()
	b := origintest.NewBuilder(t, origintest.Form{})
	one, two := b.Add(origintest.Text(1, 300_000), 20_000), b.Add(origintest.Text(2, 300_000), 20_000)
	one.Info.SHA256, two.Info.SHA256 = two.Info.SHA256, one.Info.SHA256
	write(t, filepath.Join(store, "a.shard"), b.Shard())
	for _, x := range b.Xorbs {
		write(t, filepath.Join(store, x.Hash().String()+".xorb"), x.Bytes)
	}
	name := "by-sha256/" + hex.EncodeToString(one.Info.SHA256[:])
	byHash := "by-hash/" + one.Info.File.String()
	tests := []struct {
		name string
		args []string
		good bool
	}{
		{"cat", []string{"cat", store, name}, false},
		{"cat of a range", []string{"cat", "--range", "0-100", store, name}, true},
		{"cat by hash", []string{"cat", store, byHash}, true},
		{"get", []string{"get", store, name, "CACHE"}, false},
		{"get by hash", []string{"get", store, byHash, "CACHE"}, true},
		{"verify", []string{"verify", store}, false},
		{"warm", []string{"warm", "--cache-dir", "CACHE", store}, false},
		{"warm of the name", []string{"warm", "--cache-dir", "CACHE", store, name}, false},
		{"warm of chunks", []string{"warm", "--chunks", "--cache-dir", "CACHE", store}, false},
		{"warm of chunks of the name", []string{"warm", "--chunks", "--cache-dir", "CACHE", store, name}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cache := t.TempDir()
			for i := range tt.args {
				if tt.args[i] == "CACHE" {
					tt.args[i] = filepath.Join(cache, "c")
				}
			}
			for range 2 { // with a cache, the second time
				var stderr bytes.Buffer
				if status := run(t.Context(), tt.args, nil, io.Discard, &stderr); (status == 0) != tt.good {
					t.Errorf("%v: status %d, want good = %t; it says %s", tt.args, status, tt.good, &stderr)
				}
			}
		})
	}
}
