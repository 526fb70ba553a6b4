package mountopts

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// show returns options as NAME or NAME=VALUE, each in brackets.
func show(options []Option) string {
	var b strings.Builder
	for _, o := range options {
		if o.HasValue {
			fmt.Fprintf(&b, "[%s=%s]", o.Name, o.Value)
		} else {
			fmt.Fprintf(&b, "[%s]", o.Name)
		}
	}
	return b.String()
}

// S22: the options behind -o, as text.
func TestS22_Split(t *testing.T) {
	tests := []struct{ name, in, want, err string }{
		{"none", "", "", ""},
		{"names and values", "ro,cache-size=10GiB", "[ro][cache-size=10GiB]", ""},
		{"empty ones", ",,ro,,nofail,", "[ro][nofail]", ""},
		{"empty value", "symbol=", "[symbol=]", ""},
		{"two equal signs", "x-a=b=c", "[x-a=b=c]", ""},
		{"comma behind a backslash", `log-file=/a\,b,ro`, "[log-file=/a,b][ro]", ""},
		{"comma in quotes", `log-file="/a,b",ro`, "[log-file=/a,b][ro]", ""},
		{"quotes around all", `"log-file=/a,b"`, "[log-file=/a,b]", ""},
		{"quote in quotes", `symbol="a\"b"`, `[symbol=a"b]`, ""},
		{"backslash", `symbol=a\\b`, `[symbol=a\b]`, ""},
		{"space as in fstab", `log-file=/a\040b`, "[log-file=/a b]", ""},
		{"digits that are no octal byte", `symbol=a\904`, "[symbol=a904]", ""},
		{"space", "log-file=/a b", "[log-file=/a b]", ""},
		{"twice", "uid=1,uid=2", "[uid=1][uid=2]", ""},
		{"no name", "=x", "[=x]", ""},
		{"open quote", `symbol="a,b`, "", "a quote without its end"},
		{"last backslash", `symbol=a\`, "", "protects nothing"},
		{"too long", strings.Repeat("a", maxText+1), "", "65536 are allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Split(tt.in)
			if show(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("options = %s (%v), want %s (%s)", show(got), err, tt.want, tt.err)
			}
		})
	}
}

// FuzzSplit checks three promises: Split never panics, it accepts what Join writes, and both texts
// have the same options.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"rw,_netdev,nofail", `a="b,c",d\,e`, `x\040y=\134`, "=,\"\"=\"\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		options, err := Split(text)
		if err != nil || len(text) > maxText/4 { // Join may need four bytes for one
			return
		}
		again, err := Split(Join(options))
		if err != nil || !reflect.DeepEqual(again, options) {
			t.Errorf("%q: %s, joined and split again %s (%v)", text, show(options), show(again), err)
		}
	})
}

// S22: which options are flags, and which are refused.
func TestS22_Resolve(t *testing.T) {
	flags := []string{"cache-dir", "cache-size", "allow-other", "noexec"}
	tests := []struct {
		name, in string
		sloppy   bool
		want     string
		err      string // its begin
	}{
		{"a flag", "cache-size=1GiB", false, "[cache-size=1GiB]", ""},
		{"an underscore", "allow_other,cache_dir=/a_b", false, "[allow-other][cache-dir=/a_b]", ""},
		{"standard ones", "ro,rw,nosuid,nodev,noexec,user,auto,noauto,nofail,_netdev,defaults", false, "[noexec]", ""},
		{"of systemd", "x-systemd.automount,x-systemd.idle-timeout=60,comment=a b", false, "", ""},
		{"of mount.fuse3", "rw,dev,suid", false, "", ""},
		{"twice", "cache-size=1GiB,cache-size=2GiB", false, "[cache-size=1GiB][cache-size=2GiB]", ""},
		{"unknown", "cahce-dir=/a", false, "", `-o: "cahce-dir" is not an option; did you mean cache-dir?`},
		{"unknown, standard", "nofial", false, "", `-o: "nofial" is not an option; did you mean nofail`},
		{"unknown without a similar name", "zzzzzz", false, "", `-o: "zzzzzz" is not an option; xetfs mount --help`},
		{"unknown and sloppy", "cahce-dir=/a,allow_other", true, "[allow-other]", ""},
		{"no name", "=x", false, "", `-o: "" is not an option`},
		{"secret", "hf_token=geheim", false, "", "-o hf_token: every user can read"},
		{"secret and sloppy", "PASSWORD=geheim", true, "", "-o PASSWORD: every user can read"},
		{"remount", "remount,ro", true, "", "-o remount: a mount keeps its options"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			options, err := Split(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Resolve(options, flags, tt.sloppy)
			switch {
			case tt.err == "" && (err != nil || show(got) != tt.want):
				t.Errorf("flags = %s (%v), want %s", show(got), err, tt.want)
			case tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)):
				t.Errorf("error = %v, want %s", err, tt.err)
			case err != nil && strings.Contains(err.Error(), "geheim"):
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

func TestParseCall(t *testing.T) {
	isCommand := func(word string) bool { return word == "mount" || word == "ls" }
	tests := []struct{ argv, want string }{
		{"/sbin/mount.xetfs /s /d -o rw,ro", "mount --options=rw,ro -- /s /d"},
		{"mount.fuse.xetfs -sfnv -o a -o b /s /d", "mount --options=a --options=b --sloppy --fake -- /s /d"},
		{"mount.xetfs /s /d -orw -t fuse.xetfs", "mount --options=rw -- /s /d"},
		{"mount.xetfs -so rw -- -s -d", "mount --options=rw --sloppy -- -s -d"},
		{"mount.xetfs /s", "error: want SOURCE and DIR, and not 1 words"},
		{"mount.xetfs /s /d /e", "error: want SOURCE and DIR, and not 3 words"},
		{"mount.xetfs /s /d -o", "error: -o needs a value"},
		{"mount.xetfs /s /d -x", "error: unknown flag: -x"},
		{"mount.xetfs /s /d -N", "error: -N needs a value"},
		{"mount.xetfs /s /d -N /proc/1/ns/mnt -o ro", "in /proc/1/ns/mnt: -o ro -- /s /d"},
		{"mount.xetfs -vN/n -- -s -d", "in /n: -v -- -s -d"},
		{"xetfs /s /d -o rw,dev,suid", "mount --options=rw,dev,suid -- /s /d"},
		{"xetfs mount /s -o rw", "none"},
		{"xetfs ls /s -o rw", "none"},
		{"xetfs /s /d", "none"},
		{"xetfs", "none"},
	}
	for _, tt := range tests {
		t.Run(tt.argv, func(t *testing.T) {
			call, err := ParseCall(strings.Fields(tt.argv), isCommand)
			got := "none"
			if err != nil {
				got = "error: " + err.Error()
			} else if call != nil && call.Namespace != "" {
				got = "in " + call.Namespace + ": " + strings.Join(call.HelperArgs(), " ")
			} else if call != nil {
				got = strings.Join(call.Args(), " ")
			}
			if got != tt.want {
				t.Errorf("call = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestProgramName(t *testing.T) {
	for in, want := range map[string]string{"/sbin/mount.xetfs": "/sbin/xetfs", "mount.fuse.xetfs": "xetfs", "bin/xetfs": "bin/xetfs", "other": "other"} {
		if got := ProgramName(in); got != want {
			t.Errorf("ProgramName(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	for in, want := range map[int]int{0: 0, 1: 32, 2: 1, 3: 32, 4: 32, 5: 1, 6: 32, 7: 32, 130: 8, 143: 8} {
		if got := Status(in); got != want {
			t.Errorf("Status(%d) = %d, want %d", in, got, want)
		}
	}
}
