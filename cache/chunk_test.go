package cache

import (
	"sync"
	"testing"

	"github.com/xetfs/xetfs/codec"

	"github.com/xetfs/xetfs/cache/arena"
)

// A user that retains a chunk has its bytes until the release. A later user gets none.
func TestChunk_Users(t *testing.T) {
	a := arena.New(1 << 20)
	c := copyChunk(a, chunkKey{}, codec.Hash{}, []byte("some bytes"))
	var users sync.WaitGroup
	for range 50 {
		if !c.retain() {
			t.Fatal("there is a user, and retain says no")
		}
		users.Go(func() {
			defer c.release()
			if string(c.Data) != "some bytes" {
				t.Errorf("data = %q", c.Data)
			}
		})
	}
	users.Wait()
	c.release()
	if c.retain() {
		t.Error("retain = true for a chunk without a user")
	}
	if n := a.InUse(); n != 0 {
		t.Errorf("%d bytes are still in use", n)
	}
	a.Close()
}
