package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// recipesEnv names a virtual environment with torch, transformers and datasets.
const recipesEnv = "XETFS_INTEROP_RECIPES"

// The calls that could write to a mount. A library that hides their errors is found, too.
const writingCalls = "open,openat,creat,mkdir,mkdirat,unlink,unlinkat,rmdir,rename,renameat,renameat2,link,linkat,symlink,symlinkat,chmod,fchmodat,utimensat,truncate"

// A recipe is one section of the page python, which a test runs on a mount.
type recipe struct {
	name, heading string
	replace       []string // pairs for the code of the page
	after         string   // Python code that runs after the block
	env           []string
}

// Checks behind the blocks of the page. SUM0 and SUM1 are the sums of all weights of the versions.
const (
	checkNew  = "\ntotal = sum(float(p.double().sum()) for p in model.parameters())\nassert abs(total - SUM1) < 1e-6, total\n"
	checkOld  = "total = sum(float(p.double().sum()) for p in old.parameters())\nassert abs(total - SUM0) < 1e-6, total\n"
	checkRows = "\nassert row == {'text': 'row 499', 'seed': 1}, row\n"
	checkMap  = "\nassert len(d) == 500 and d[10] == {'text': 'row 10', 'seed': 1, 'n': 6}, d[10]\n"
)

var recipes = []recipe{
	{name: "path and old version", heading: "transformers: a model by its path", after: checkNew + checkOld +
		"assert tokenizer('hello world')['input_ids'] == [2, 3]\n"},
	{name: "sharded", heading: "transformers: a model by its path", replace: []string{"org/model", "org/sharded"}, after: checkNew + checkOld},
	{name: "safetensors", heading: "safetensors", after: "\nassert tensor.dtype == 'float32' and tensor.size > 0\n"},
	{name: "parquet, streamed", heading: "datasets: parquet and JSON", after: checkRows},
	{name: "JSON, streamed", heading: "datasets: parquet and JSON", replace: []string{"parquet", "json"}, after: checkRows},
	{name: "parquet", heading: "datasets: parquet and JSON", replace: []string{"streaming=True", "streaming=False"}, after: checkRows},
	{name: "JSON", heading: "datasets: parquet and JSON", replace: []string{"parquet", "json", "streaming=True", "streaming=False"}, after: checkRows},
	{name: "load_from_disk", heading: "datasets: load_from_disk", after: checkMap},
}

// A recipeFixture has what the recipes need: a store with two versions, and its mount.
type recipeFixture struct {
	work, venv string
	sums       [2]float64
	page       string
}

// TestPythonRecipes runs the page python, recipe by recipe, on a mount. No library tries to write to
// the mount, and none prints an error.
func TestPythonRecipes(t *testing.T) {
	p := newRecipeFixture(t)
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			for _, block := range p.blocks(t, r) {
				if isShell(block) {
					continue
				}
				p.python(t, block+r.after, r.env...)
			}
		})
	}
	t.Run("name", p.testName)
	t.Run("overlay", p.testOverlay)
}

// newRecipeFixture makes and publishes the data, and mounts the store.
func newRecipeFixture(t *testing.T) *recipeFixture {
	p := &recipeFixture{venv: need(t, recipesEnv), work: t.TempDir()}
	page, err := os.ReadFile("../../cmd/xetfs/docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	p.page = string(page)
	data := filepath.Join(p.work, "data")
	command(t, p.environment(), nil, filepath.Join(p.venv, "bin/python3"), "recipes.py", data, "0", "1")
	for seed := range p.sums {
		folder := data + fmt.Sprint(seed)
		var said struct{ Sum float64 }
		if err := json.Unmarshal(read(t, filepath.Join(folder, "sum.json")), &said); err != nil {
			t.Fatal(err)
		}
		p.sums[seed] = said.Sum
		for _, name := range []string{"model", "sharded", "data", "saved"} {
			xetfs(t, "publish", filepath.Join(p.work, "store"), "org/"+name, filepath.Join(folder, name))
		}
	}
	p.mount(t, "x", filepath.Join(p.work, "store"))
	return p
}

// mount mounts at a new folder of the fixture, until the end of the test.
func (p *recipeFixture) mount(t *testing.T, name, source string) {
	t.Helper()
	dir := filepath.Join(p.work, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, p.environment(), nil, need(t, xetfsEnv), "mount", source, dir)
	p.unmountLater(t, dir)
}

func (p *recipeFixture) unmountLater(t *testing.T, dir string) {
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	})
}

// environment has no address of the Hub that answers.
func (p *recipeFixture) environment(more ...string) []string {
	return append([]string{
		"PATH=" + filepath.Join(p.venv, "bin") + ":" + filepath.Dir(os.Getenv(xetfsEnv)) + ":/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + filepath.Join(p.work, "home"), "HF_HOME=" + filepath.Join(p.work, "home", "hf"), "HF_ENDPOINT=http://127.0.0.1:9",
		"HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1", "TOKENIZERS_PARALLELISM=false",
	}, more...)
}

// indented are the blocks of code in a page.
var indented = regexp.MustCompile(`(?m)(^    .*\n(\n(    ))?)+`)

// blocks returns the code of a section of the page, with the paths of this test.
func (p *recipeFixture) blocks(t *testing.T, r recipe) (blocks []string) {
	t.Helper()
	_, section, ok := strings.Cut(p.page, "\n## "+r.heading+"\n")
	if !ok {
		t.Fatalf("the page has no heading %q", r.heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	paths := strings.NewReplacer("/mnt/", p.work+"/", "/srv/", p.work+"/", "./", p.work+"/", "2026-03-01", "0")
	for _, block := range indented.FindAllString(section, -1) {
		code := strings.NewReplacer(r.replace...).Replace(regexp.MustCompile(`(?m)^    `).ReplaceAllString(block, ""))
		blocks = append(blocks, paths.Replace(code))
	}
	if len(blocks) == 0 {
		t.Fatalf("section %q has no code", r.heading)
	}
	return blocks
}

// isShell reports whether a block is for a shell.
func isShell(block string) bool { return !strings.Contains(strings.Split(block, "\n")[0], "import ") }

// python runs a program and fails if it prints an error or tries to write to a mount.
func (p *recipeFixture) python(t *testing.T, program string, env ...string) {
	t.Helper()
	program = strings.NewReplacer("SUM0", fmt.Sprint(p.sums[0]), "SUM1", fmt.Sprint(p.sums[1])).Replace(program)
	p.watched(t, p.environment(env...), filepath.Join(p.venv, "bin/python3"), "-c", program)
}

// watched runs a program under strace.
func (p *recipeFixture) watched(t *testing.T, env []string, args ...string) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	args = append([]string{"-f", "-qq", "--seccomp-bpf", "-Z", "-e", "trace=" + writingCalls, "-o", trace}, args...)
	cmd := exec.Command("strace", args...)
	cmd.Env, cmd.Dir = env, p.work
	out, err := cmd.CombinedOutput()
	if err != nil || regexp.MustCompile(`(?i)traceback|error:|read-only`).Match(out) {
		t.Errorf("%v: %s\n%s", err, args[len(args)-1], out)
	}
	for line := range strings.Lines(string(read(t, trace))) {
		if strings.Contains(line, "EROFS") {
			t.Errorf("a write to a mount: %s", line)
		}
	}
}

// testName downloads a model from xetfs serve, publishes the cache of the library and mounts it. The
// model is then found by name, offline and with a Hub that cannot be reached.
func (p *recipeFixture) testName(t *testing.T) {
	address, _ := startServe(t, nil, filepath.Join(p.work, "store"))
	shell := p.blocks(t, recipe{heading: "transformers: a model by its name"})[0]
	if err := os.Mkdir(filepath.Join(p.work, "by-name"), 0o755); err != nil {
		t.Fatal(err)
	}
	download, offline, ok := strings.Cut(shell, "HF_HUB_CACHE="+p.work+"/by-name ")
	if !ok {
		t.Fatalf("no program uses the mount: %s", shell)
	}
	command(t, p.environment("HF_ENDPOINT="+strings.TrimSuffix(address.String(), "/")), nil, "bash", "-euc", "cd "+p.work+"\n"+download)
	p.unmountLater(t, filepath.Join(p.work, "by-name"))
	env := p.environment("HF_HUB_CACHE=" + filepath.Join(p.work, "by-name"))
	p.watched(t, env, "bash", "-euc", offline)
	_, unreachable, _ := strings.Cut(offline, "HF_HUB_OFFLINE=1 ")
	p.watched(t, env, "bash", "-euc", unreachable)
}

// testOverlay lets load_from_disk cache beside the data, in an overlay.
func (p *recipeFixture) testOverlay(t *testing.T) {
	blocks := p.blocks(t, recipe{heading: "datasets: load_from_disk"})
	for _, name := range []string{"work", "upper", "over"} {
		if err := os.Mkdir(filepath.Join(p.work, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, p.environment(), nil, "bash", "-euc", blocks[1])
	p.unmountLater(t, filepath.Join(p.work, "over"))
	program := strings.NewReplacer(p.work+"/x/org/saved", p.work+"/over", "disable_caching()\n", "\n", ", disable_caching", "").Replace(blocks[0])
	p.python(t, program+checkMap)
	cached, err := filepath.Glob(filepath.Join(p.work, "upper", "cache-*"))
	if err != nil || len(cached) == 0 {
		t.Errorf("the upper folder has no result of map: %q, %v", cached, err)
	}
}
