package interop

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

// openLevel opens a new database once for every history and writes it. The process that
// has it open then ends with the function that is returned.
func openLevel(t *testing.T, db string, opens ...history) (closeDB func()) {
	t.Helper()
	return writeLevel(t, map[string]any{"do": "write", "db": db, "opens": batchesOf(opens)})
}

// compactLevel writes histories into a new database and has it make a table of each.
func compactLevel(t *testing.T, db string, opens ...history) {
	t.Helper()
	writeLevel(t, map[string]any{"do": "write", "db": db, "compact": true, "opens": batchesOf(opens)})()
}

// batchesOf returns the batches of histories as level.py takes them.
func batchesOf(opens []history) [][][][2][]byte {
	all := make([][][][2][]byte, len(opens))
	for i, h := range opens {
		all[i] = make([][][2][]byte, len(h.records))
		for j, w := range h.records {
			all[i][j] = make([][2][]byte, len(w.batch))
			for k, e := range w.batch {
				all[i][j][k] = [2][]byte{[]byte(e.key), e.value}
			}
		}
	}
	return all
}

func writeLevel(t *testing.T, job map[string]any) (closeDB func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, levelEnv), "level.py")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(stdin).Encode(job); err != nil {
		t.Errorf("level.py does not read: %v", err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "written\n" {
		t.Fatalf("level.py says %q, %v, %v\n%s", line, err, cmd.Wait(), errOut.String())
	}
	return func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("level.py: %v\n%s", err, errOut.String())
		}
	}
}

// readLevel returns what LevelDB finds in databases.
func readLevel(t *testing.T, dbs []string) []map[string][]byte {
	t.Helper()
	job, err := json.Marshal(map[string]any{"do": "read", "dbs": dbs})
	if err != nil {
		t.Fatal(err)
	}
	var encoded []map[string][]byte // by key in base64
	out := command(t, nil, job, need(t, levelEnv), "level.py")
	if err := json.Unmarshal(out, &encoded); err != nil || len(encoded) != len(dbs) {
		t.Fatalf("%d databases, want %d, %v", len(encoded), len(dbs), err)
	}
	read := make([]map[string][]byte, len(dbs))
	for i, db := range encoded {
		read[i] = map[string][]byte{}
		for text, value := range db {
			key, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			read[i][string(key)] = value
		}
	}
	return read
}

// logOf returns the path of the log of a database.
func logOf(t *testing.T, db string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(db, "*.log"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("logs are %v, %v", paths, err)
	}
	return paths[0]
}

// inspectLog returns what xetfs inspect lists of a log, and whether it says that it is
// clean.
func inspectLog(t *testing.T, path string) (l listed, clean bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), need(t, xetfsEnv), "inspect", "--json", "--as", "log", path).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatal(err)
	}
	return l, exit == nil
}
