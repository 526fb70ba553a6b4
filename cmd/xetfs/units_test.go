package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// namespaceSettings begin the settings of systemd.exec(5) that make a mount namespace.
var namespaceSettings = []string{
	"PrivateTmp", "PrivateMounts", "PrivateDevices", "ProtectSystem", "ProtectHome", "ProtectKernel", "ProtectControlGroups",
	"ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "TemporaryFileSystem", "BindPaths", "BindReadOnlyPaths",
	"RootDirectory", "RootImage", "DynamicUser", "MountFlags", "MountAPIVFS", "ProtectProc", "ProcSubset", "PrivateNetwork",
}

// The units make no mount namespace, and systemd accepts them without a word.
func TestUnits(t *testing.T) {
	for mode, file := range map[string]string{"--system": "packaging/xetfs@.service", "--user": "packaging/user/xetfs@.service"} {
		unit, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(unit)) {
			for _, name := range namespaceSettings {
				if strings.HasPrefix(line, name) {
					t.Errorf("%s: %s makes a mount namespace", file, strings.TrimSpace(line))
				}
			}
		}
		analyze, err := exec.LookPath("systemd-analyze")
		if err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal("systemd-analyze is missing, and CI=true")
			}
			t.Log("systemd-analyze is missing")
			continue
		}
		// The program and the manual page are not installed here.
		dir := t.TempDir()
		text := strings.ReplaceAll(string(unit), "/usr/bin/xetfs", "/bin/true")
		for _, name := range []string{"xetfs@.service", "xetfs@x.service"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(analyze, "verify", "--man=no", mode, filepath.Join(dir, "xetfs@x.service"))
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", file, err, out)
		}
	}
}
