package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// semanticsTests has the tests of each heading of the topic semantics. A name is that of a
// function, and of a row if its table has several subjects.
var semanticsTests = map[string][]string{
	"open, openat":                      {"TestK23_ReadOnly/open and truncate", "TestK25_Oddities/path only", "TestK25_Oddities/as a folder"},
	"Open files and new versions":       {"TestK38_OpenFile", "TestK38_OpenDirectory", "TestSharedDirs_Seek", "TestSharedDirs_Forgotten"},
	"read, pread, readv, preadv2":       {"TestK24_Reads/preadv2 without waiting", "TestK24_Reads/readv"},
	"Signals during a call":             {"TestK12_K13_ReaderKilled", "TestRemoteReadersLeave", "TestSignalsDoNotDisturb", "TestRemoteSignalsDoNotDisturb"},
	"O_DIRECT":                          {"TestK24_Reads/O_DIRECT", "TestK24_DirectReads"},
	"sendfile, splice, copy_file_range": {"TestK24_Reads/splice", "TestK24_Reads/copy_file_range", "TestK23_ReadOnly/copy into"},
	"io_uring":                          {"TestK24_Reads/io_uring"},
	"readahead, posix_fadvise":          {"TestK24_Reads/readahead", "TestK24_Reads/fadvise", "TestPush", "TestPushBytes", "TestPushLimit"},
	"lseek":                             {"TestK25_Oddities/hole at the end", "TestK25_Calls/data at the end"},
	"mmap":                              {"TestK20_Mapping", "TestK23_ReadOnly/write to a mapping"},
	"execve":                            {"TestK21_Execution"},
	"stat, statx":                       {"TestSemantics/stat"},
	"Access times":                      {"TestSemantics/access time"},
	"access":                            {"TestK25_Oddities/access to read", "TestK23_ReadOnly/access to write a file"},
	"readdir, getdents":                 {"TestK26_Listing", "TestK26_Readdir"},
	"seekdir, telldir":                  {"TestK26_Seekdir"},
	"readlink":                          {"TestS06_Links"},
	"getxattr, listxattr":               {"TestK25_Xattrs", "TestK25_Oddities/attribute that is not there"},
	"statfs, df":                        {"TestK25_Calls", "TestSemantics/statfs"},
	"flock, fcntl locks":                {"TestK25_Oddities/flock", "TestK25_Oddities/read lock"},
	"ioctl":                             {"TestK25_Oddities/unknown ioctl"},
	"fsync":                             {"TestSemantics/fsync"},
	"fallocate, ftruncate":              {"TestK23_ReadOnly/fallocate", "TestK23_ReadOnly/ftruncate"},
	"write and all other changes":       {"TestK23_ReadOnly/write", "TestK23_ReadOnly/rename over another", "TestK23_ReadOnly/utimensat"},
}

// TestSemanticsTopic checks that each heading of the topic has a test, and that these tests exist.
func TestSemanticsTopic(t *testing.T) {
	topic, err := os.ReadFile("../cmd/xetfs/docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	bodies := testBodies(t, "*_test.go", "../fs/*_test.go")
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(topic), -1)
	if len(headings) != len(semanticsTests) {
		t.Errorf("the topic has %d headings, the table %d rows", len(headings), len(semanticsTests))
	}
	for _, h := range headings {
		tests := semanticsTests[h[1]]
		if len(tests) == 0 {
			t.Errorf("heading %q has no test", h[1])
		}
		for _, name := range tests {
			function, row, _ := strings.Cut(name, "/")
			if !hasRow(bodies, function, row) {
				t.Errorf("heading %q: test %s does not exist", h[1], name)
			}
		}
	}
}

// hasRow reports whether a test exists and its file contains the name of the row.
func hasRow(files map[string][]string, function, row string) bool {
	for _, text := range files[function] {
		if strings.Contains(text, `"`+row) || row == "" {
			return true
		}
	}
	return false
}

// testBodies returns the texts of the files that declare each test.
func testBodies(t *testing.T, patterns ...string) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
					files[f.Name.Name] = append(files[f.Name.Name], string(src))
				}
			}
		}
	}
	return files
}

// TestSemantics tests the headings that no other test covers.
func TestSemantics(t *testing.T) {
	content := harness.Noise(1, 200_000)
	dir := t.TempDir()
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, content)
	m := harness.MountSource(t, dir)
	path := m.File(stored[0].Hash)
	before := statOf(t, path)
	if got, err := os.ReadFile(path); err != nil || len(got) != len(content) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	after := statOf(t, path)
	t.Run("stat", func(t *testing.T) {
		if after.Size != 200_000 || after.Nlink != 1 || after.Ino == 0 || after.Ino != before.Ino || after.Blocks != 391 {
			t.Errorf("stat = %+v, before the read %+v", after, before)
		}
	})
	t.Run("access time", func(t *testing.T) {
		if after.Atim != before.Atim || after.Atim != after.Mtim {
			t.Errorf("access time = %v, before the read %v, modified %v", after.Atim, before.Atim, after.Mtim)
		}
	})
	t.Run("statfs", func(t *testing.T) {
		var s unix.Statfs_t
		if err := unix.Statfs(m.Dir, &s); err != nil || s.Bfree != 0 || s.Namelen != 255 || s.Flags&unix.ST_RDONLY == 0 {
			t.Errorf("statfs = %+v, %v", s, err)
		}
	})
	t.Run("fsync", func(t *testing.T) {
		if err := harness.WithFile(path, unix.Fsync); err != nil {
			t.Error(err)
		}
	})
}

func statOf(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
