package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/names"
)

var repackStories = flag.Int("repack-stories", 1, "how many random histories TestRepackedStores plays")

// A repackStory is a random history of one store, with what its readers must see.
type repackStory struct {
	t      *testing.T
	dice   *rand.Rand
	work   string
	store  string
	server string // address
	files  map[string]string
	want   map[uint64]map[string]string // files by version
	signed map[uint64]bool
	next   uint64 // number of the next version
	snaps  int
}

// Commands and servers show the same before and after a repack and a sweep, at any time in the
// history of a store.
func TestRepackedStores(t *testing.T) {
	for seed := range *repackStories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newRepackStory(t, uint64(seed))
			for range 10 {
				s.step()
			}
			s.repack()
		})
	}
}

func newRepackStory(t *testing.T, seed uint64) *repackStory {
	s := &repackStory{
		t: t, dice: rand.New(rand.NewPCG(seed, 1)), work: t.TempDir(),
		files: map[string]string{}, want: map[uint64]map[string]string{}, signed: map[uint64]bool{},
	}
	s.store = filepath.Join(s.work, "store")
	store, err := dir.Open(s.store)
	if err != nil {
		t.Fatal(err)
	}
	if err := initCatalog(store, []string{"1h", "1s"}); err != nil {
		t.Fatal(err)
	}
	store.Close()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	s.write("key", pem.EncodeToMemory(block), 0o600)
	s.write("allowed", append([]byte("me "), ssh.MarshalAuthorizedKey(public)...), 0o600)
	for i := range 5 {
		s.files[fmt.Sprintf("d%d/f%d", i%2, i)] = s.noise()
	}
	s.publish(false)
	s.server = startServe(t, "--cache-dir=off", s.store)
	return s
}

func (s *repackStory) write(name string, content []byte, mode os.FileMode) {
	s.t.Helper()
	path := filepath.Join(s.work, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		s.t.Fatal(err)
	}
}

// noise returns the content of a file, which may be small.
func (s *repackStory) noise() string {
	size := 20_000 + s.dice.IntN(200_000)
	if s.dice.IntN(4) == 0 {
		size = s.dice.IntN(300)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(s.dice.Uint32())
	}
	return string(b)
}

// run runs a command and returns its status and what it printed.
func (s *repackStory) run(args ...string) string {
	var out, errs bytes.Buffer
	status := run(context.Background(), args, nil, &out, &errs)
	return fmt.Sprintf("status %d\n%s\n%s", status, &out, &errs)
}

// step is one random change.
func (s *repackStory) step() {
	live := slices.Sorted(maps.Keys(s.want))
	some := func() uint64 { return live[s.dice.IntN(len(live))] }
	switch roll := s.dice.IntN(16); {
	case roll < 5:
		s.change()
		s.publish(false)
	case roll < 8:
		s.change()
		s.publish(true)
	case roll < 9:
		n := some()
		mustRun(s.t, "catalog", "sign", "--sign-key", filepath.Join(s.work, "key"), s.store, fmt.Sprintf("org/model@%d", n))
		s.signed[n] = true
	case roll < 10:
		s.snaps++
		mustRun(s.t, "snapshot", "create", s.store, fmt.Sprintf("snap%d", s.snaps), fmt.Sprintf("org/model@%d", some()))
	case roll < 11 && s.snaps > 0:
		mustRun(s.t, "snapshot", "delete", s.store, fmt.Sprintf("snap%d", s.snaps))
		s.snaps--
	case roll < 12 && len(live) > 2:
		n := some()
		mustRun(s.t, "delete", s.store, fmt.Sprintf("org/model@%d", n))
		delete(s.want, n)
	case roll < 13 && len(live) > 4:
		mustRun(s.t, "prune", "--keep-last", "3", s.store, "org/model")
		for _, n := range live[:len(live)-3] {
			delete(s.want, n)
		}
	default:
		s.repack()
	}
}

// change changes some files.
func (s *repackStory) change() {
	for range 1 + s.dice.IntN(2) {
		s.files[fmt.Sprintf("d%d/f%d", s.dice.IntN(2), s.dice.IntN(8))] = s.noise()
	}
}

// publish publishes the files; with update the folder has a part of them.
func (s *repackStory) publish(update bool) {
	s.t.Helper()
	folder := fmt.Sprintf("folder%d", s.next)
	var last map[string]string // the newest live version
	if len(s.want) > 0 {
		last = s.want[slices.Max(slices.Collect(maps.Keys(s.want)))]
	}
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		content := s.files[path]
		if known, ok := last[path]; update && ok && known == content && s.dice.IntN(3) > 0 {
			continue
		}
		s.write(filepath.Join(folder, path), []byte(content), 0o644)
	}
	args := []string{"publish", "--force"}
	if update {
		args = append(args, "--update")
	}
	if s.dice.IntN(3) == 0 {
		args = append(args, "--sign-key", filepath.Join(s.work, "key"))
		s.signed[s.next] = true
	}
	args = append(args, "--label", fmt.Sprintf("tag=v%d", s.next), s.store, "org/model", filepath.Join(s.work, folder))
	mustRun(s.t, args...)
	s.want[s.next] = maps.Clone(s.files)
	s.next++
	if s.dice.IntN(3) == 0 { // another symbol shares files with the first
		mustRun(s.t, "publish", "--force", s.store, "other", filepath.Join(s.work, folder))
	}
}

// repack compares what readers see before and after a repack, and after a sweep.
func (s *repackStory) repack() {
	s.t.Helper()
	before := s.view()
	args := []string{"catalog", "repack", "--max-unused", []string{"0%", "5%", "40%"}[s.dice.IntN(3)]}
	one := s.dice.IntN(4) == 0
	if one {
		args = append(args, "--symbol", "org/model")
	}
	mustRun(s.t, append(args, s.store)...)
	s.compare("a repack", before, s.view())
	sweepOld(s.t, s.store)
	s.compare("a repack and a sweep", before, s.view())
	if n := countObjects(s.t, s.store, names.XorbPrefix); n != 1 && !one {
		s.t.Errorf("%d xorbs after a sweep", n)
	}
	if out := s.run("catalog", "check", "--data", s.store); !strings.Contains(out, "all sound") {
		s.t.Errorf("check: %s", out)
	}
	mustRun(s.t, "verify", s.store)
	mustRun(s.t, "warm", "--cache-dir", filepath.Join(s.t.TempDir(), "cache"), s.store, "org/model")
}

func (s *repackStory) compare(what string, before, after map[string]string) {
	s.t.Helper()
	for name, want := range before {
		if got := after[name]; got != want {
			s.t.Errorf("after %s: %s:\n%s", what, name, otherLines(got, want))
		}
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
}

// otherLines returns the lines in which two texts differ.
func otherLines(got, want string) string {
	b := new(strings.Builder)
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, z := "", ""
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			z = w[i]
		}
		if a != z {
			fmt.Fprintf(b, "%s\nwant\n%s\n", a, z)
		}
	}
	return b.String()
}

// fetched is the number of xorbs of which chunks must be fetched.
var fetched = regexp.MustCompile(`"xorbs":\d+,|in \d+ xorbs?`)

// numbers are sequence numbers of changes, of which a repack takes one.
var numbers = regexp.MustCompile(`"seq":\d+,|"checked":"[^"]*",?`)

// view returns what commands and the server show, and compares files with their content.
func (s *repackStory) view() map[string]string {
	s.t.Helper()
	v := map[string]string{}
	show := func(args ...string) { v[strings.Join(args, " ")] = fetched.ReplaceAllString(s.run(args...), "") }
	allowed := filepath.Join(s.work, "allowed")
	for _, history := range []string{
		s.run("history", "--json", "--allowed-signers", allowed, s.store, "org/model"),
		s.run("history", "--allowed-signers", allowed, s.store, "org/model"),
	} {
		lines := slices.DeleteFunc(strings.Split(numbers.ReplaceAllString(history, ""), "\n"), func(line string) bool {
			return strings.Contains(line, `"kind":"repack"`) || strings.Contains(line, "  repacks ")
		})
		for i := range lines {
			lines[i] = strings.TrimSuffix(lines[i], ",")
		}
		v["history "+lines[1]] = strings.Join(lines, "\n")
	}
	show("snapshot", "list", s.store)
	show("ls", "-l", "--allowed-signers", allowed, s.store)
	show("prune", "--dry-run", "--keep-last", "2", s.store, "org/model")
	last := ""
	for _, n := range slices.Sorted(maps.Keys(s.want)) {
		name := fmt.Sprintf("org/model@%d", n)
		show("ls", "-lR", s.store, name)
		show("verify", s.store, name)
		if last != "" {
			show("diff", "--json", s.store, last, name)
		}
		last = name
		s.checkFiles(n)
		want := exitGood
		if !s.signed[n] {
			want = exitNotAllowed
		}
		if out := s.run("ls", "--allowed-signers", allowed, s.store, name); !strings.HasPrefix(out, fmt.Sprintf("status %d\n", want)) {
			s.t.Errorf("%s, signed %v: %s", name, s.signed[n], out)
		}
		commit := commitOf(s.t, s.server, "models/org/model", fmt.Sprintf("v%d", n))
		v["commit of "+name] = commit
		for path, content := range s.want[n] {
			if status, _, got := get(s.t, s.server+"/org/model/resolve/"+commit+"/"+path, ""); status != 200 || got != content {
				s.t.Errorf("served %s of %s: status %d, %d bytes that may differ", path, name, status, len(got))
			}
		}
	}
	for _, path := range []string{"commits/main?limit=50", "tree/main?recursive=true&expand=1", "refs", "revision/HEAD"} {
		status, _, body := get(s.t, s.server+"/api/models/org/model/"+path, "")
		v["served "+path] = fmt.Sprint(status, " ", body)
	}
	return v
}

// checkFiles compares the files of a version with their content.
func (s *repackStory) checkFiles(n uint64) {
	s.t.Helper()
	out := filepath.Join(s.t.TempDir(), "out")
	mustRun(s.t, "get", s.store, fmt.Sprintf("org/model@%d", n), out)
	for path, content := range s.want[n] {
		got, err := os.ReadFile(filepath.Join(out, path))
		if err != nil || string(got) != content {
			s.t.Errorf("version %d: %s: %v, %d bytes that may differ", n, path, err, len(got))
		}
	}
}
