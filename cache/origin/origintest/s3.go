package origintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An S3 is an S3 server of another implementation: versitygw over a folder. It checks
// signatures and conditions.
type S3 struct {
	URL            string
	Access, Secret string // keys of its owner
	Folder         string // each folder in it is a bucket, each file in that an object

	users string // folder of AddUser
}

const (
	S3Domain  = "s3.example" // of bucket names in host names
	s3Bucket  = "xetfs-test"
	s3Starts  = 5 // another process may take a port that was free
	s3Waiting = 30 * time.Second
)

// Bucket is the name of a bucket that exists.
func (*S3) Bucket() string { return s3Bucket }

// Env returns the variables of the environment that lead to the server, for lookups.
func (s *S3) Env() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_S3":       s.URL,
		"AWS_ACCESS_KEY_ID":         s.Access,
		"AWS_SECRET_ACCESS_KEY":     s.Secret,
		"AWS_EC2_METADATA_DISABLED": "true",
	}
}

// ServeS3 starts a server that ends with the test. It skips a test without the program, which
// integration/setup.sh installs; in CI the test fails.
func ServeS3(t testing.TB) *S3 {
	t.Helper()
	program, err := s3Program()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := &S3{Access: "XETFSACCESSKEY", Secret: "xetfs-secret-key-of-tests", Folder: t.TempDir(), users: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.Folder, s3Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	for range s3Starts {
		if s.start(t, program) {
			return s
		}
	}
	t.Fatalf("%s does not start, %d times", program, s3Starts)
	return nil
}

// AddUser adds a user with keys of its own. Without a policy the user may do nothing.
func (s *S3) AddUser(t testing.TB, access, secret string) {
	t.Helper()
	program, err := s3Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "admin", "--access", s.Access, "--secret", s.Secret, "--endpoint-url", s.URL,
		"create-user", "--access", access, "--secret", secret, "--role", "user")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Allow replaces the policy of the bucket: it allows a user, or everyone ("*"), some actions such
// as s3:GetObject. The server stores the policy as an attribute of the folder of the bucket.
func (s *S3) Allow(t testing.TB, user string, actions ...string) {
	t.Helper()
	policy, err := json.Marshal(map[string]any{
		"Version": "2012-10-17",
		"Statement": []map[string]any{{
			"Effect": "Allow", "Principal": user, "Action": actions,
			"Resource": []string{"arn:aws:s3:::" + s3Bucket, "arn:aws:s3:::" + s3Bucket + "/*"},
		}},
	})
	if err == nil {
		err = unix.Setxattr(filepath.Join(s.Folder, s3Bucket), "user.policy", policy, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// HasS3 reports whether ServeS3 can start a server. In CI it must, and then a test without the
// program fails.
func HasS3() bool {
	_, err := s3Program()
	return err == nil || os.Getenv("CI") == "true"
}

// userCache is from before a test program gets a home of its own.
var userCache, errUserCache = os.UserCacheDir()

// s3Program returns the path of the program.
func s3Program() (string, error) {
	if errUserCache != nil {
		return "", errUserCache
	}
	program := filepath.Join(userCache, "xetfs-test", "bin", "versitygw")
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%w; integration/setup.sh installs it", err)
	}
	return program, nil
}

// start runs the server on a free port. It reports whether the server answers.
func (s *S3) start(t testing.TB, program string) bool {
	t.Helper()
	address := freeAddress(t)
	log := new(bytes.Buffer)
	cmd := exec.Command(program, "--port", address, "--access", s.Access, "--secret", s.Secret,
		"--keep-alive", "--quiet", "--virtual-domain", S3Domain, "--iam-dir", s.users, "posix", s.Folder)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.URL = "http://" + address
	marker := fmt.Sprintf("ready-%d", rand.Int64())
	if err := os.Mkdir(filepath.Join(s.Folder, marker), 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(filepath.Join(s.Folder, marker))
	for deadline := time.Now().Add(s3Waiting); time.Now().Before(deadline); {
		select {
		case err := <-ended:
			t.Logf("%s: %v\n%s", program, err, log)
			return false
		case <-time.After(20 * time.Millisecond):
		}
		if s.answers(marker) {
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				<-ended
			})
			return true
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	t.Logf("%s: no answer within %v\n%s", program, s3Waiting, log)
	return false
}

// answers reports whether this S3 server is at the address. It has a bucket of a random name. The server of
// another process, which took the port before, has none.
func (s *S3) answers(marker string) bool {
	resp, err := http.Get(s.URL + "/" + marker)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusForbidden
}

// freeAddress returns an address on loopback with a free port.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr())
}
