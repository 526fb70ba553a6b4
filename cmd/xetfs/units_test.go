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
	for file, mode := range map[string]string{
		"packaging/xetfs@.service": "--system", "packaging/user/xetfs@.service": "--user", "packaging/xetfs-serve.service": "--system",
	} {
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

// TestFstabUnits makes units of the lines of fstab in topics and README, as systemd does at boot.
// systemd accepts lines and units without a word, and waits for the network where SOURCE needs it.
func TestFstabUnits(t *testing.T) {
	const generator = "/usr/lib/systemd/system-generators/systemd-fstab-generator"
	analyze, err := exec.LookPath("systemd-analyze")
	if err == nil {
		_, err = os.Stat(generator)
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v, and CI=true", err)
		}
		t.Skip(err)
	}
	for _, fields := range fstabLines(t) {
		t.Run(strings.Join(fields, " "), func(t *testing.T) {
			dir := t.TempDir()
			fstab := filepath.Join(dir, "fstab")
			if err := os.WriteFile(fstab, []byte(strings.Join(fields, " ")+" 0 0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(generator, dir, dir, dir)
			cmd.Env = append(os.Environ(), "SYSTEMD_FSTAB="+fstab, "SYSTEMD_LOG_TARGET=console")
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v: %s", err, out)
			}
			units, err := filepath.Glob(filepath.Join(dir, "*.*mount"))
			if err != nil || len(units) == 0 {
				t.Fatalf("units %q, %v", units, err)
			}
			cmd = exec.Command(analyze, append([]string{"verify", "--man=no"}, units...)...)
			cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
			remote, err := filepath.Glob(filepath.Join(dir, "remote-fs.target.*", "*mount"))
			if err != nil || strings.Contains(fields[0], "://") != (len(remote) > 0) {
				t.Errorf("%q wait for the network, %v", remote, err)
			}
		})
	}
}
