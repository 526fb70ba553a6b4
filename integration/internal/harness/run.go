package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Run runs a program and returns what it prints; it fails the test if the program does.
func Run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	out, err := Try(t, dir, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, Tail(out, 4000))
	}
	return out
}

// Try runs a program that may fail.
func Try(t testing.TB, dir, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, Patience
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// pythonEnv names the Python that has numpy and safetensors; the Makefile sets it.
const pythonEnv = "XETFS_PYTHON"

// ScientificPython returns a Python with numpy and safetensors, which setup.sh installs.
func ScientificPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv(pythonEnv)
	if python == "" {
		out, err := exec.Command(filepath.Join(Root(t), "integration", "setup.sh"), "--python").Output()
		if err != nil {
			t.Fatal(err)
		}
		python = strings.TrimSpace(string(out))
	}
	if out, err := Try(t, "", python, "-c", "import numpy, safetensors.numpy"); err != nil {
		Absent(t, "%s has no numpy or safetensors (integration/setup.sh installs them): %s", python, out)
	}
	return python
}
