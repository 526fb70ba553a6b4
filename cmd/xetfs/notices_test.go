package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/names"
)

// S36: nothing is written to the folders of another user.
func TestS36_OtherHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to own files as another user")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	dirs := map[string]func() (string, error){"state": stateDir, "cache": ownCacheDir}
	for name, dir := range dirs {
		if _, err := dir(); err != nil {
			t.Errorf("%s below an own home: %v", name, err)
		}
	}
	if err := os.Chown(home, 4711, -1); err != nil {
		t.Fatal(err)
	}
	for name, dir := range dirs {
		if path, err := dir(); err == nil {
			t.Errorf("%s below the home of another user: %s", name, path)
		}
	}
	o, err := (&publishRun{publishOptions: publishOptions{folder: t.TempDir()}}).options()
	if err != nil || o.StatCacheErr == nil {
		t.Errorf("a stat cache below the home of another user: %v", err)
	}
	if names, err := os.ReadDir(home); err != nil || len(names) > 0 {
		t.Errorf("%v, %v in the home of another user", names, err)
	}
}

func TestNoticesNameNoKeys(t *testing.T) {
	var out strings.Builder
	noticeLogger(lsCommand(t, &out)).Warn("no answer", "err", fmt.Errorf("%q: refused", names.SettingsKey()))
	if want := "xetfs ls: no answer err=the settings of the catalog: refused\n"; out.String() != want {
		t.Errorf("%q; want %q", out.String(), want)
	}
}

// The log names objects in words: as text, as JSON and in the journal.
func TestLogNamesNoKeys(t *testing.T) {
	ref := names.RefKey("org/model")
	for _, form := range []string{"text", "json", "journal"} {
		f, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		t.Setenv("JOURNAL_STREAM", "")
		var o logOptions
		o.addFlags(&cobra.Command{})
		switch form {
		case "json":
			o.asJSON.value = true
		case "journal":
			var st unix.Stat_t
			if err := unix.Fstat(int(f.Fd()), &st); err != nil {
				t.Fatal(err)
			}
			t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
		}
		log, _, err := o.open(f)
		if err != nil {
			t.Fatal(err)
		}
		log.Warn("no answer", "what", string(ref), "key", ref, "err", fmt.Errorf("%q: refused", ref))
		b, err := os.ReadFile(f.Name())
		if text := string(b); err != nil || strings.Count(text, "reference org/model") != 3 || strings.Contains(text, string(ref)) {
			t.Errorf("%s: %v, %s", form, err, text)
		}
	}
}

// lsCommand returns the command ls with another standard error.
func lsCommand(t *testing.T, stderr io.Writer) *cobra.Command {
	t.Helper()
	cmd, _, err := newRoot().Find([]string{"ls"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.SetErr(stderr)
	return cmd
}
