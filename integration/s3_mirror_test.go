package integration

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// D01: the disk with the copies of the shards is full. A publish ends as with room, and a note
// names the reason.
func TestD01_MirrorNoRoom(t *testing.T) {
	t.Parallel()
	server := origintest.ServeS3(t)
	c := newBucketClient(t, server, server.URL)
	folder := t.TempDir()
	for i := range 8 {
		harness.WriteFile(t, filepath.Join(folder, fmt.Sprint("noise-", i)), harness.Noise(uint64(i), 4<<20))
		c.run("publish", c.address, "org/model", folder)
	}
	for _, size := range []string{"4k", "1m"} {
		t.Run(size, func(t *testing.T) {
			cache := newCacheFolder(t)
			onTmpfs(t, cache, "size="+size)
			small := newBucketClient(t, server, server.URL)
			small.env = append(small.env, "XDG_CACHE_HOME="+cache.Dir)
			text := strings.Repeat(fmt.Sprint(rand.Uint64()), 1000)
			harness.WriteFile(t, filepath.Join(folder, "text"), []byte(text))
			out, err := small.command("publish", c.address, "org/model", folder).CombinedOutput()
			if noted := strings.Contains(string(out), "no copies of shards are stored"); err != nil || noted != (size == "4k") {
				t.Fatalf("publish = %v:\n%s", err, out)
			}
			if got := c.run("cat", c.address, "org/model", "text"); got != text {
				t.Errorf("%d bytes, want %d", len(got), len(text))
			}
		})
	}
	c.run("verify", c.address)
}
