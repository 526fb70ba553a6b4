package dir_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
)

func TestS06_LinksAreNotFollowed(t *testing.T) {
	_, body, x := sample(t, origintest.Form{})
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), body)
	tests := []struct {
		name, link, target string
	}{
		{"to a file outside", "a.xorb", filepath.Join(outside, "secret")},
		{"to a folder outside", "folder", outside},
		{"upwards", "a.xorb", "../../../../../../../../" + filepath.Join(outside, "secret")},
		{"to itself", "a.xorb", "a.xorb"},
		{"to nothing", "a.xorb", "none"},
		{"to the folder itself", "again", "."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Symlink(tt.target, filepath.Join(root, tt.link)); err != nil {
				t.Fatal(err)
			}
			s := openBare(t, root)
			if _, err := s.Size(t.Context(), x.Key()); !errors.Is(err, origin.ErrNotFound) {
				t.Errorf("Size = %v, want %v", err, origin.ErrNotFound)
			}
		})
	}
}

// OpenBare ignores everything that is not a regular file, and does not wait for the writer of a
// pipe.
func TestO25_NoFilesInTheFolder(t *testing.T) {
	root := t.TempDir()
	_, body, x := sample(t, origintest.Form{})
	write(t, filepath.Join(root, "a"), body)
	if err := unix.Mkfifo(filepath.Join(root, "pipe.xorb"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "folder.shard"), 0o755); err != nil {
		t.Fatal(err)
	}
	unix.Mknod(filepath.Join(root, "device.xorb"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) // may not be allowed
	codectest.Within(t, codectest.Patience, "OpenBare", func() {
		s := openBare(t, root)
		files, err := s.Files(t.Context())
		if len(files) != 1 || err != nil {
			t.Errorf("Files = %v, %v", files, err)
		}
		if _, err := s.Size(t.Context(), x.Key()); err != nil {
			t.Errorf("Size: %v", err)
		}
	})
}

// Files returns what is under the key of a xorb and is no regular file, with the reason.
func TestO25_NoFileUnderAKey(t *testing.T) {
	root := t.TempDir()
	makes := []func(path string) error{
		func(path string) error { return os.Mkdir(path, 0o755) },
		func(path string) error { return unix.Mkfifo(path, 0o644) },
		func(path string) error { return os.Symlink("/nowhere", path) },
	}
	for i, make := range makes {
		path := filepath.Join(root, string(names.XorbKey(codec.Hash{byte(i)})))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), make(path)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := openBare(t, root).Files(t.Context())
	if len(files) != len(makes) || err != nil {
		t.Errorf("Files = %v, %v", files, err)
	}
	for _, f := range files {
		if f.Err == nil || f.Err.Error() != "not a regular file" {
			t.Errorf("%s: %v", f.Path, f.Err)
		}
	}
}

// A file changes while the folder is open. No read returns a wrong byte or waits, and reads
// succeed when the file is good again.
func TestO25_WhileOpen(t *testing.T) {
	_, body, x := sample(t, origintest.Form{})
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, outside, body)
	instead := func(make func(name string) error) func(t *testing.T, name string) {
		return func(t *testing.T, name string) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := make(name); err != nil {
				t.Skip(err)
			}
		}
	}
	tests := []struct {
		name   string
		happen func(t *testing.T, name string)
		err    error // of a read after the file was dropped
	}{
		{"cut", func(t *testing.T, name string) { os.Truncate(name, 10) }, codec.ErrCorrupt},
		{"emptied", func(t *testing.T, name string) { os.Truncate(name, 0) }, codec.ErrCorrupt},
		{"deleted", instead(func(string) error { return nil }), origin.ErrNotFound},
		{"its folder deleted", func(t *testing.T, name string) { os.RemoveAll(filepath.Dir(name)) }, origin.ErrNotFound},
		{"replaced by a shorter one", instead(func(name string) error { return os.WriteFile(name, body[:10], 0o644) }), codec.ErrCorrupt},
		{"unreadable", func(t *testing.T, name string) {
			if os.Geteuid() == 0 {
				t.Skip("root can read everything")
			}
			os.Chmod(name, 0)
		}, origin.ErrUnavailable},
		{"turned into a pipe", instead(func(name string) error { return unix.Mkfifo(name, 0o644) }), origin.ErrUnavailable},
		{"turned into a folder", instead(func(name string) error { return os.Mkdir(name, 0o755) }), origin.ErrUnavailable},
		{"turned into a device", instead(func(name string) error {
			return unix.Mknod(name, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5)))
		}), origin.ErrUnavailable},
		{"turned into a link out of the tree", instead(func(name string) error { return os.Symlink(outside, name) }), origin.ErrUnavailable},
		{"turned into a link to itself", instead(func(name string) error { return os.Symlink(name, name) }), origin.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			name := filepath.Join(root, "sub", "a.xorb")
			write(t, name, body)
			s := openBare(t, root)
			p := make([]byte, 100)
			read := func() (err error) {
				codectest.Within(t, codectest.Patience, "ReadAt", func() { err = s.ReadAt(t.Context(), x.Key(), p, 0) })
				if err == nil && string(p) != string(body[:100]) {
					t.Error("ReadAt gives other bytes")
				}
				return err
			}
			if err := read(); err != nil {
				t.Fatal(err)
			}
			tt.happen(t, name)
			read() // of the file that is open: what was there, or an error
			s.RejectKey(x.Key())
			if err := read(); !errors.Is(err, tt.err) {
				t.Errorf("ReadAt = %v, want %v", err, tt.err)
			}
			os.RemoveAll(name)
			write(t, name, body)
			s.RejectKey(x.Key())
			if err := read(); err != nil {
				t.Errorf("ReadAt of the file that is good again: %v", err)
			}
		})
	}
}

// O25: after RejectKey, a read finds the file that replaced the damaged one.
func TestO25_Replaced(t *testing.T) {
	_, body, x := sample(t, origintest.Form{})
	root := t.TempDir()
	name := filepath.Join(root, string(x.Key()))
	write(t, name, flip(body, 20))
	readOnly, err := dir.OpenReadOnly(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, readOnly)
	stores := map[string]origin.Store{"read only": readOnly, "store": openStore(t, root), "bare": openBare(t, root)}
	read := func(s origin.Store) []byte {
		p := make([]byte, len(body))
		if err := s.ReadAt(t.Context(), x.Key(), p, 0); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, s := range stores {
		read(s) // it is open now
	}
	write(t, name+".new", body)
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	for kind, s := range stores {
		objects.New(s, objects.Options{}).Reject(x.Hash())
		if !bytes.Equal(read(s), body) {
			t.Errorf("%s: it reads the damaged one still", kind)
		}
	}
}

// Reads after Item are of the file that Item described.
func TestItemOfReplaced(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	name := filepath.Join(root, string(dataKey))
	for _, value := range []string{"one", "another"} {
		write(t, name+".new", []byte(value))
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
		item, err := s.Item(t.Context(), dataKey)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, item.Size)
		if err := s.ReadAt(t.Context(), dataKey, p, 0); err != nil || string(p) != value {
			t.Errorf("%q, %v, want %q", p, err, value)
		}
	}
}

// A file that cannot be read has an Err with the reason, if its name promises a shard or xorb.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	root := t.TempDir()
	_, body, _ := sample(t, origintest.Form{})
	for _, name := range []string{"a.xorb", "b"} {
		write(t, filepath.Join(root, name), body)
		if err := os.Chmod(filepath.Join(root, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	files, err := openBare(t, root).Files(t.Context())
	if err != nil || len(files) != 1 || !errors.Is(files[0].Err, origin.ErrUnavailable) {
		t.Errorf("Files = %+v, %v", files, err)
	}
}
