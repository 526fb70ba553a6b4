package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var repackMiB = flag.Int("repack-mib", 0, "MiB of the files of TestRepackBucketFar, 10240 in ten minutes or more, with seven times their size of disk; 0: it is skipped")

// A repack of a bucket 25 ms away reads and writes at most 1.2 times the bytes that it replaces. Its
// memory is bounded. The log compares its rate with that of rclone, which copies the store through the
// same link.
func TestRepackBucketFar(t *testing.T) {
	if *repackMiB == 0 {
		t.Skip("without -repack-mib")
	}
	harness.NeedTool(t, "rclone")
	server := origintest.ServeS3(t)
	near := newBucketClient(t, server, server.URL)
	folder := t.TempDir()
	for version := range 2 {
		for i := range *repackMiB {
			if version == 0 || i%10 == 0 {
				path := filepath.Join(folder, fmt.Sprint("d", i/100), fmt.Sprint("f", i))
				harness.WriteFile(t, path, harness.Noise(uint64(version*1_000_000+i), 1<<20))
			}
		}
		near.run("publish", near.address, "m", folder)
	}
	near.run("delete", near.address, "m@0")

	link := linktest.New(t, server.URL, linktest.Options{Delay: harness.RemoteDelay})
	far := newBucketClient(t, server, link.URL)
	cmd := far.command("catalog", "repack", "--json", far.address)
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	if err != nil {
		t.Fatalf("repack: %v", err)
	}
	var did struct {
		Usage struct {
			Replaced struct{ Bytes int64 } `json:"replaced_xorbs"`
		}
		Stored struct{ Xorb struct{ Bytes int64 } }
		Read   int64 `json:"read_bytes"`
	}
	if err := json.Unmarshal(out, &did); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	replaced := did.Usage.Replaced.Bytes
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	rate := func(bytes int64, took time.Duration) float64 { return float64(bytes) / took.Seconds() / 1e6 }
	t.Logf("replaced %d MiB: read %.2f, written %.2f of it in %v, %.0f MB/s read and written, %v of CPU, peak memory %d MiB; at the link %d requests, %.2f received, %.2f sent",
		replaced>>20, float64(did.Read)/float64(replaced), float64(did.Stored.Xorb.Bytes)/float64(replaced), took, rate(did.Read+did.Stored.Xorb.Bytes, took), cpu, peak>>20,
		link.Requests(), float64(link.Bytes())/float64(replaced), float64(link.Sent())/float64(replaced))
	for what, n := range map[string]int64{
		"read": did.Read, "written": did.Stored.Xorb.Bytes, "received at the link": link.Bytes(), "sent at the link": link.Sent(),
	} {
		if n > replaced*12/10 {
			t.Errorf("%s: %d bytes for %d bytes of replaced xorbs", what, n, replaced)
		}
	}
	if most := int64(512+128) << 20; peak > most {
		t.Errorf("peak memory %d MiB, at most %d MiB", peak>>20, most>>20)
	}

	if err := os.Mkdir(filepath.Join(server.Folder, "xetfs-copied"), 0o700); err != nil {
		t.Fatal(err)
	}
	start, before := time.Now(), link.Bytes()
	far.rcloneThrough(link.URL, "from:"+server.Bucket()+"/store/tdata/xorb", "to:xetfs-copied/xorb")
	took, copied := time.Since(start), link.Bytes()-before
	t.Logf("rclone copied %d MiB in %v, %.0f MB/s read and written", copied>>20, took, rate(2*copied, took))
	near.run("catalog", "check", "--data", near.address)
	restored := filepath.Join(t.TempDir(), "tree")
	near.run("get", near.address, "m", restored)
	harness.Run(t, "", "diff", "-r", folder, restored)
}

// rcloneThrough copies from a remote to another. All bytes pass this process, because rclone asks a
// server for a copy only within one remote.
func (c *bucketClient) rcloneThrough(url, from, to string) {
	c.t.Helper()
	cmd := exec.Command("rclone", "copy", from, to)
	cmd.Env = append(c.env, "AWS_CA_BUNDLE=") // rclone refuses it
	for _, remote := range []string{"FROM", "TO"} {
		prefix := "RCLONE_CONFIG_" + remote + "_"
		cmd.Env = append(cmd.Env, prefix+"TYPE=s3", prefix+"PROVIDER=Other", prefix+"ENV_AUTH=true", prefix+"ENDPOINT="+url)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("rclone: %v\n%s", err, out)
	}
}
