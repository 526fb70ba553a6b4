package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/codectest"
)

// program returns the path of a program that runs main: a copy of this test program.
func program(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(t.TempDir(), "xetfs")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// F58: a small shard whose File Info leads to more than 2^21 chunks. No count of chunks
// switches the check against the file hash off, and no byte of a false file is written.
func TestF58_ManyTinyChunks(t *testing.T) {
	if codectest.Race {
		t.Skip("two million chunks, and no concurrency")
	}
	const terms, chunks = 270, 8000
	store := t.TempDir()
	shard := func(name string, lie bool) *origintest.File {
		b := origintest.NewBuilder(t, origintest.Form{NoCASInfo: true, NoVerify: true})
		var tiny [][]byte
		for i := range chunks {
			tiny = append(tiny, []byte{byte(i), byte(i >> 8)})
		}
		x := b.Xorb(tiny...)
		all := make([]origintest.Term, terms)
		for i := range all {
			all[i] = x.Term(0, chunks)
		}
		f := b.File(all...)
		if lie {
			f.Info.File[0] ^= 1
			f.Info.SHA256[0] ^= 1
		}
		write(t, filepath.Join(store, name), b.Shard())
		write(t, filepath.Join(store, x.Hash().String()+".xorb"), x.Bytes)
		return f
	}
	good, lie := shard("good.shard", false), shard("lie.shard", true)

	bin, home := program(t), t.TempDir()
	xetfs := func(args ...string) (stdout []byte, status int, stderr string) {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME=")
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return out.Bytes(), cmd.ProcessState.ExitCode(), said.String()
	}
	name := func(f *origintest.File) string { return "by-hash/" + f.Info.File.String() }
	if out, status, said := xetfs("cat", store, name(good)); status != 0 || !bytes.Equal(out, good.Bytes()) {
		t.Errorf("cat of the good file: %d bytes, status %d: %s", len(out), status, said)
	}
	for _, args := range [][]string{{"cat"}, {"cat", "--range", "0-100"}} {
		out, status, said := xetfs(append(args, store, name(lie))...)
		if status != exitDamage || len(out) > 0 || !strings.Contains(said, "its terms make file "+good.Info.File.String()) {
			t.Errorf("%v of the false file: %d bytes, status %d: %s", args, len(out), status, said)
		}
	}
	if _, status, said := xetfs("verify", store); status != exitDamage {
		t.Errorf("verify: status %d: %s", status, said)
	}
	if !canMount() {
		return
	}
	dir := t.TempDir()
	defer unmountBelow(t, dir)
	m := filepath.Join(dir, "m")
	if err := os.Mkdir(m, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, status, said := xetfs("mount", store, m); status != 0 {
		t.Fatalf("mount: status %d: %s", status, said)
	}
	if b, err := readEnd(filepath.Join(m, name(good)), 100); err != nil || !bytes.HasSuffix(good.Bytes(), b) {
		t.Errorf("the end of the good file in a mount: %d bytes, %v", len(b), err)
	}
	if b, err := readEnd(filepath.Join(m, name(lie)), 100); err == nil || len(b) > 0 {
		t.Errorf("the end of the false file in a mount: %d bytes, %v", len(b), err)
	}
	if b, err := os.ReadFile(filepath.Join(m, name(lie))); err == nil || len(b) > 0 {
		t.Errorf("the false file in a mount: %d bytes, %v", len(b), err)
	}
	if _, status, said := xetfs("umount", m); status != 0 {
		t.Errorf("umount: status %d: %s", status, said)
	}
}

// readEnd returns the last n bytes of a file.
func readEnd(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, info.Size()-n, n))
}
