package integration

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	iofs "io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
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
		{"text", textContent, xorb.LZ4},
		{"f32", weightsContent, xorb.ByteGrouping4LZ4},
		{"bf16", halfContent, xorb.ByteGrouping4LZ4},
	}
	noiseKind = kind{"random", noiseContent, xorb.None}
)

// halfContent is weights as bfloat16: the upper halves of float32 numbers.
func halfContent(seed uint64, n int64) io.Reader {
	rng := rand.New(rand.NewPCG(seed, 'h'))
	return &content{left: n, make: func(b []byte) []byte {
		for len(b) < 64<<10 {
			bits := rng.Uint64()
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(weight(uint32(bits)))>>16))
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(weight(uint32(bits>>32)))>>16))
		}
		return b
	}}
}

// lay writes the one file of a kind below plain and returns the sums of its blocks.
func (k kind) lay(t *testing.T, plain string, size int64) *blockSums {
	t.Helper()
	if err := os.MkdirAll(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(plain, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sums := new(blockSums)
	if _, err := io.Copy(io.MultiWriter(f, sums), k.make(1, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return sums
}

// laySources copies the sources of Go's standard library, which every machine that runs
// this has, and returns the names of its files in the order of a walk.
func laySources(t *testing.T, folder string) []string {
	t.Helper()
	root := strings.TrimSpace(run(t, "", "go", "env", "GOROOT"))
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "", "cp", "-rL", filepath.Join(root, "src"), folder)
	run(t, "", "sync", "-f", folder)
	return filesBelow(t, folder)
}

// filesBelow returns the names of all regular files, relative to folder.
func filesBelow(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(folder, func(path string, d iofs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(folder, path) // both begin with folder
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// canPack says whether the program has the command pack.
func canPack(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command(xetfs(t), "--help").Output()
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

// storeFolder stores all files of a folder and returns them by their names in it. This
// is the one place that chooses the encoder: `xetfs pack` if the program has it, else the
// plain one, which cuts chunks of 64 KiB and packs them all alike.
func storeFolder(t *testing.T, storeDir, folder string, scheme xorb.Scheme) map[string]Stored {
	t.Helper()
	if canPack(t) {
		return packFolder(t, storeDir, folder)
	}
	s := newStore(storeDir, storeOptions{})
	files := map[string]Stored{}
	for _, name := range filesBelow(t, folder) {
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

// packFolder stores a folder with `xetfs pack`.
func packFolder(t *testing.T, storeDir, folder string) map[string]Stored {
	t.Helper()
	cmd := exec.Command(xetfs(t), "pack", "--json", "--list", storeDir, folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("xetfs pack: %v", err)
	}
	var said struct {
		List []struct {
			Path, Hash string
			Size       int64
		}
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("xetfs pack: %v", err)
	}
	files := map[string]Stored{}
	for _, f := range said.List {
		name, err := packedName(folder, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		h, err := codec.ParseHash(f.Hash)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = Stored{Hash: h, Size: f.Size}
	}
	return files
}

// packedName is the name in folder of a path that pack has listed.
func packedName(folder, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return path, nil
	}
	name, err := filepath.Rel(folder, path)
	if err != nil || strings.HasPrefix(name, "..") {
		return "", fmt.Errorf("xetfs pack lists %s, which is not in %s", path, folder)
	}
	return name, nil
}
