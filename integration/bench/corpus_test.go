package bench

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A kind is one kind of content of the corpus.
type kind struct {
	name   string
	make   func(seed uint64, n int64) io.Reader
	scheme xorb.Scheme // for the plain encoders, which choose nothing by themselves
}

// kinds are the large files that are read; noise is only packed.
var (
	kinds = []kind{
		{"text", harness.TextContent, xorb.LZ4},
		{"f32", harness.WeightsContent, xorb.ByteGrouping4LZ4},
		{"bf16", halfContent, xorb.ByteGrouping4LZ4},
	}
	noiseKind = kind{"random", harness.NoiseContent, xorb.None}
)

// halfContent is weights as bfloat16: the upper halves of float32 numbers.
func halfContent(seed uint64, n int64) io.Reader {
	rng := rand.New(rand.NewPCG(seed, 'h'))
	return &harness.Content{Left: n, Make: func(b []byte) []byte {
		for len(b) < 64<<10 {
			bits := rng.Uint64()
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(harness.Weight(uint32(bits)))>>16))
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(harness.Weight(uint32(bits>>32)))>>16))
		}
		return b
	}}
}

// lay writes the one file of a kind below plain and returns the sums of its blocks.
func (k kind) lay(t *testing.T, plain string, size int64) *harness.BlockSums {
	t.Helper()
	if err := os.MkdirAll(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(plain, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sums := new(harness.BlockSums)
	if _, err := io.Copy(io.MultiWriter(f, sums), k.make(1, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return sums
}

// laySources copies the sources of Go's standard library, which exist on every machine with Go.
// It returns the names of the files in the order of a walk.
func laySources(t *testing.T, folder string) []string {
	t.Helper()
	root := strings.TrimSpace(harness.Run(t, "", "go", "env", "GOROOT"))
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, "", "cp", "-rL", filepath.Join(root, "src"), folder)
	harness.Run(t, "", "sync", "-f", folder)
	return harness.FilesBelow(t, folder)
}

// canPack reports whether the program has the command pack.
func canPack(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command(harness.Program(t), "--help").Output()
	return err == nil && strings.Contains(string(out), "\n  pack ")
}

// encoder says what stores are made with.
func encoder(t *testing.T) string {
	t.Helper()
	if canPack(t) {
		return "xetfs pack"
	}
	return "the plain encoders of the tests"
}

// storeFolder stores all files of a folder and returns them by their names. It is the only place
// that chooses the encoder. The plain encoder serves programs without `xetfs pack`: it cuts chunks
// of 64 KiB and packs them all with one scheme.
func storeFolder(t *testing.T, storeDir, folder string, scheme xorb.Scheme) map[string]harness.Stored {
	t.Helper()
	if canPack(t) {
		return harness.PackFolder(t, storeDir, folder)
	}
	s := harness.NewStore(storeDir, harness.StoreOptions{})
	files := map[string]harness.Stored{}
	for _, name := range harness.FilesBelow(t, folder) {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name], err = s.Add(f, scheme)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return files
}
