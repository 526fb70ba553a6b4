package bench

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// modelShards is the number of files with weights.
const modelShards = 4

// benchHubModel loads a model as the library transformers does, from the mount and from a folder
// that snapshot_download filled.
func benchHubModel(t *testing.T, b *hubBench) {
	python := hfPython(t)
	if python == "" {
		return
	}
	m := &hubModel{b, filepath.Join(t.TempDir(), "model"), python, nil}
	m.lay(t)
	harness.Publish(t, b.store, "bench/model", m.plain)
	m.server = b.serve(t)
	for round := range *benchRounds {
		for _, l := range []slowLink{gigabit, farLink} {
			for _, c := range hubClients(t) {
				m.mounted(t, l, c, round)
			}
			m.snapshot(t, l, round)
		}
		m.local(t, round)
	}
}

// A hubModel is a repository with a model.
type hubModel struct {
	*hubBench
	plain  string
	python string
	server *hubServer
}

// lay writes the files of the model: four times -bench-mib of weights.
func (m *hubModel) lay(t *testing.T) {
	t.Helper()
	index := map[string]string{}
	for i := range modelShards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, modelShards)
		layModel(t, filepath.Join(m.plain, name), uint64(100+i), *benchMiB<<22/modelShards)
		index[fmt.Sprint("shard.", i)] = name
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(m.plain, "model.safetensors.index.json"), text)
	harness.WriteFile(t, filepath.Join(m.plain, "config.json"), []byte(`{"model_type": "llama", "num_hidden_layers": 64}`))
	harness.WriteFile(t, filepath.Join(m.plain, "tokenizer_config.json"), []byte(`{"tokenizer_class": "LlamaTokenizer"}`))
	vocabulary := map[string]int{}
	for i := range 50_000 {
		vocabulary[fmt.Sprintf("token-%x", i*7919)] = i
	}
	if text, err = json.Marshal(vocabulary); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(m.plain, "tokenizer.json"), text)
}

// loadHub loads the model in a folder. It prints the seconds.
const loadHub = `
import json, os, sys, time
from safetensors.numpy import load_file
from huggingface_hub import snapshot_download

def load(folder):
    for name in ("config.json", "tokenizer_config.json", "tokenizer.json"):
        json.load(open(os.path.join(folder, name)))
    index = json.load(open(os.path.join(folder, "model.safetensors.index.json")))
    total = 0.0
    for name in sorted(set(index["weight_map"].values())):
        for tensor in load_file(os.path.join(folder, name)).values():
            total += float(tensor[:, 0].sum())
    return total

start = time.monotonic()
load(sys.argv[1] if os.path.isabs(sys.argv[1]) else snapshot_download(sys.argv[1]))
print(time.monotonic() - start)
`

func (m *hubModel) note(what, system string, round int, seconds float64) {
	m.add("P14", "model, "+what, "s", system, round, seconds)
}

// noteCPU has a unit of its own, since the targets of the model are times.
func (m *hubModel) noteCPU(what, system string, round int, seconds float64) {
	m.add("P14", "model, "+what, "s of CPU", system, round, seconds)
}

// mounted loads the model from a mount. Its time includes that of mounting. Warm means mounted
// again, without the page cache.
func (m *hubModel) mounted(t *testing.T, l slowLink, c hubClient, round int) {
	t.Helper()
	address, link := m.server.connect(t, l)
	caches := t.TempDir()
	for _, how := range []string{"cold", "warm"} {
		dropBelow(t, caches)
		start, requests := time.Now(), link.Requests()
		mount := c.mount(t, address, "bench/model", caches)
		mounting := time.Since(start).Seconds()
		took, python, others := m.load(t, address, mount.path)
		m.note(l.name+", "+how, c.name, round, mounting+took)
		m.noteCPU(l.name+", "+how+": the client", c.name, round, mount.cpu())
		m.noteCPU(l.name+", "+how+": Python", c.name, round, python)
		m.noteCPU(l.name+", "+how+": the server and the link", c.name, round, others)
		m.add("P14", "model, "+l.name+", "+how, "requests", c.name, round, float64(link.Requests()-requests))
		mount.unmount()
	}
}

// snapshot downloads the model and loads it.
func (m *hubModel) snapshot(t *testing.T, l slowLink, round int) {
	t.Helper()
	address, _ := m.server.connect(t, l)
	took, python, others := m.load(t, address, "bench/model")
	m.note(l.name+", cold", hfDownload, round, took)
	m.noteCPU(l.name+", cold: Python", hfDownload, round, python)
	m.noteCPU(l.name+", cold: the server and the link", hfDownload, round, others)
}

// load loads the model from a folder or repository. python is the CPU time of the program that
// loads, and others that of the server and of this process, which is the link.
func (m *hubModel) load(t *testing.T, address, from string) (took, python, others float64) {
	t.Helper()
	children, own := usageOf(t, unix.RUSAGE_CHILDREN), usageOf(t, unix.RUSAGE_SELF)+m.server.CPU()
	runHub(t, m.python, loadHub, address, []string{from}, &took)
	return took, usageOf(t, unix.RUSAGE_CHILDREN) - children, usageOf(t, unix.RUSAGE_SELF) + m.server.CPU() - own
}

// usageOf returns the CPU time in seconds of this process or of its children that have ended.
func usageOf(t *testing.T, of int) float64 {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(of, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// local loads the model from a local folder.
func (m *hubModel) local(t *testing.T, round int) {
	t.Helper()
	dropBelow(t, m.plain)
	took, _, _ := m.load(t, m.server.Address(), m.plain)
	for _, l := range []slowLink{gigabit, farLink} {
		m.note(l.name+", warm", ext4, round, took)
	}
}
