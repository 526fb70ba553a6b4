package fusemount

import (
	"strings"
	"testing"
)

func at(path string) func(*Entry) bool { return func(e *Entry) bool { return e.Point == path } }

func TestFindMount(t *testing.T) {
	const table = `22 28 0:20 / /proc rw,relatime shared:12 - proc proc rw
36 28 0:42 / /mnt/x ro,nosuid,nodev shared:40 master:1 - fuse.xetfs /data/a\040b ro,user_id=0
37 36 0:43 / /mnt/x ro,nosuid - fuse.xetfs /data/c,d ro
38 28 0:44 / /mnt/with\040space\134and\011tab rw - tmpfs none rw
39 28 8:1 / / rw - ext4 /dev/sda1 rw
40 28 0:45 / /mnt/nameless rw - tmpfs  rw
`
	// An overlay with hundreds of layers.
	long := "41 28 0:47 / /mnt/overlay rw - overlay overlay rw,lowerdir=" + strings.Repeat("/layer:", 20_000) + "\n"
	tests := []struct {
		path  string
		minor uint32
		want  string // "" for nothing
	}{
		{"/proc", 20, "proc (proc)"},
		{"/mnt/x", 43, "fuse.xetfs (/data/c,d)"},
		{"/mnt/with space\\and\ttab", 44, "tmpfs (none)"},
		{"/", 1, "ext4 (/dev/sda1)"},
		{"/mnt/nameless", 45, "tmpfs ()"},
		{"/mnt", 0, ""},
		{"/mnt/x/", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			e, err := findIn([]byte(long+table), at(tt.path))
			switch {
			case err != nil:
				t.Fatal(err)
			case e == nil && tt.want != "":
				t.Errorf("nothing found, want %s", tt.want)
			case e != nil && (e.String() != tt.want || e.Minor != tt.minor):
				t.Errorf("found %s, minor %d, want %s, minor %d", e, e.Minor, tt.want, tt.minor)
			}
		})
	}
	for path, want := range map[string]int64{"/mnt/x": -1, "/proc": -1, "/mnt/own": 1000} {
		own := table + "41 28 0:46 / /mnt/own ro - fuse.xetfs user_id=5,a rw,user_id=1000,group_id=7\n"
		if e, err := findIn([]byte(own), at(path)); err != nil || e.Owner != want {
			t.Errorf("%s: owner of %+v (%v), want %d", path, e, err, want)
		}
	}
	for _, line := range []string{"", "a b c", "1 2 x / /mnt rw - tmpfs none rw", "1 2 0:4 / /mnt rw -", "36 28 0:42 / /mnt rw tmpfs"} {
		if e, err := findIn([]byte(line+"\n"), func(*Entry) bool { return true }); err == nil {
			t.Errorf("line %q gave %v, want an error", line, e)
		}
	}
}
