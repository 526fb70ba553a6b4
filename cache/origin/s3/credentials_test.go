package s3_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
)

// sign signs a request of a test with the keys of the owner.
func sign(t *testing.T, server *origintest.S3, r *http.Request, body string) {
	t.Helper()
	sum := sha256.Sum256([]byte(body))
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	signed := signer.SignV4(*r, server.Access, server.Secret, "", "us-east-1")
	r.Header, r.URL = signed.Header, signed.URL
}

// TestCredentials is a table of sources of keys, by the access key of a request.
func TestCredentials(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("credentials", "[default]\naws_access_key_id=FILE\naws_secret_access_key=s\n[work]\naws_access_key_id=WORK\naws_secret_access_key=s\n")
	const container = "http://127.0.0.1:1/keys"
	tests := []struct {
		name  string
		env   map[string]string
		files string
		roles map[string]string // answers by path
		want  string            // access key
		err   string
	}{
		{"environment first", map[string]string{"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "work"}, file, nil, "ENV", ""},
		{"default profile", nil, file, nil, "FILE", ""},
		{"named profile", map[string]string{"AWS_PROFILE": "work"}, file, nil, "WORK", ""},
		{"absent profile", map[string]string{"AWS_PROFILE": "other"}, file, nil, "", `profile "other"`},
		{"no secret key", map[string]string{"AWS_ACCESS_KEY_ID": "ENV"}, file, nil, "", "or none of them"},
		{"no access key", map[string]string{"AWS_SECRET_ACCESS_KEY": "s"}, file, nil, "", "or none of them"},
		{"container", map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": container}, "", map[string]string{"/keys": "CONTAINER"}, "CONTAINER", ""},
		{"container without an answer", map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": container}, "", nil, "", "no credentials of a role"},
		{"instance", nil, "", map[string]string{"/latest/meta-data/iam/security-credentials/role": "INSTANCE"}, "INSTANCE", ""},
		{"none", nil, "", nil, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} { // minio-go reads them
				t.Setenv(name, tt.env[name])
			}
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", cmp.Or(tt.files, filepath.Join(home, "none")))
			t.Setenv("AWS_CONFIG_FILE", filepath.Join(home, "none"))
			key, requests := "", 0
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "bucket.s3.us-east-1.amazonaws.com" {
					_, key, _ = strings.Cut(r.Header.Get("Authorization"), "Credential=")
					key, _, _ = strings.Cut(key, "/")
					return answer(r, http.StatusNotFound, codeBody("NoSuchKey"))
				}
				requests++
				return roles(r, tt.roles)
			})
			s, err := s3.Open("s3://bucket", s3.Options{Getenv: getenv(tt.env), Transport: transport})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range 2 {
				_, err = s.Size(t.Context(), refKey)
			}
			if key != tt.want || !strings.Contains(fmt.Sprint(err), tt.err) {
				t.Errorf("access key %q and error %v, want %q and %q", key, err, tt.want, tt.err)
			}
			if requests > 4 && tt.err == "" {
				t.Errorf("%d requests for credentials: the result is not stored", requests)
			}
		})
	}
}

// roles answers for the metadata of an instance or a container.
func roles(r *http.Request, keys map[string]string) (*http.Response, error) {
	switch key := keys[r.URL.Path]; {
	case keys == nil:
		return nil, fmt.Errorf("no route to host")
	case r.URL.Path == "/latest/api/token":
		return answer(r, http.StatusOK, "token")
	case r.URL.Path == "/latest/meta-data/iam/security-credentials/":
		return answer(r, http.StatusOK, "role")
	case key != "":
		return answer(r, http.StatusOK, fmt.Sprintf(`{"Code":"Success","AccessKeyId":%q,"SecretAccessKey":"s","Token":"t","Expiration":%q}`,
			key, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	}
	return answer(r, http.StatusNotFound, "")
}

// TestInstanceWithoutKeys reads once while an instance has no keys, and again later. The request
// for keys is repeated, but rarely.
func TestInstanceWithoutKeys(t *testing.T) {
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	role := map[string]string{"/latest/meta-data/iam/security-credentials/role": "INSTANCE"}
	tests := []struct {
		name    string
		limit   time.Duration // of the first read
		latency time.Duration // of the first answers
		status  int           // of the first answers
		roles   map[string]string
		want    string
	}{
		{"the first read is canceled", 50 * time.Millisecond, 100 * time.Millisecond, 200, role, "INSTANCE"},
		{"slow at first", time.Minute, 1100 * time.Millisecond, 200, role, "INSTANCE"},
		{"busy at first", time.Minute, 0, 503, role, "INSTANCE"},
		{"a role attached later", time.Minute, 0, 404, role, "INSTANCE"},
		{"never an answer", time.Minute, time.Hour, 200, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key, requests, first := "", 0, true
				transport := roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host == "bucket.s3.us-east-1.amazonaws.com" {
						key = accessKey(r)
						return answer(r, http.StatusNotFound, codeBody("NoSuchKey"))
					}
					requests++
					if !first {
						return roles(r, tt.roles)
					}
					if err := origin.Sleep(r.Context(), tt.latency); err != nil {
						return nil, err
					}
					if tt.status != 200 {
						return answer(r, tt.status, "")
					}
					return roles(r, role)
				})
				s, err := s3.Open("s3://bucket", s3.Options{Getenv: getenv(nil), Transport: transport})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				_, _ = s.Size(ctx, refKey)
				first = false
				for range 24 * 60 {
					time.Sleep(time.Minute)
					_, _ = s.Size(t.Context(), refKey)
				}
				if key != tt.want {
					t.Errorf("the access key is %q after a day, want %q", key, tt.want)
				}
				if requests > 150 {
					t.Errorf("%d requests for credentials in a day", requests)
				}
			})
		})
	}
}

// TestRenew renews keys before they expire. The old ones serve while no new ones are available.
func TestRenew(t *testing.T) {
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/keys")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	tests := []struct {
		name   string
		wait   time.Duration // since the row above
		status int           // of an answer with keys
		refuse string        // these keys
		want   string
	}{
		{"first keys, for 10 minutes", 0, 200, "", "KEY1"},
		{"before 80 % of the time", 7 * time.Minute, 200, "", "KEY1"},
		{"renewal fails", 2 * time.Minute, 503, "", "KEY1"},
		{"renewal succeeds", 10 * time.Second, 200, "", "KEY3"},
		{"the server refuses them early", 10 * time.Second, 200, "KEY3", "KEY4"},
		{"renewal fails until they expire", 11 * time.Minute, 503, "", ""},
	}
	synctest.Test(t, func(t *testing.T) {
		n, row, key := 0, 0, ""
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/keys" {
				key = accessKey(r)
				if key == tests[row].refuse {
					return answer(r, http.StatusBadRequest, codeBody("ExpiredToken"))
				}
				return answer(r, http.StatusNotFound, codeBody("NoSuchKey"))
			}
			n++
			return answer(r, tests[row].status, fmt.Sprintf(`{"AccessKeyId":"KEY%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`,
				n, time.Now().Add(10*time.Minute).UTC().Format(time.RFC3339)))
		})
		s, err := s3.Open("s3://bucket", s3.Options{Transport: transport, Getenv: getenv(map[string]string{
			"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/keys",
		})})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for i, tt := range tests {
			time.Sleep(tt.wait)
			row, key = i, ""
			_, _, _ = s.Get(t.Context(), refKey, "")
			if key != tt.want {
				t.Errorf("%s: the request has %q, want %q", tt.name, key, tt.want)
			}
		}
	})
}

// TestFailedSource is a table of calls during which the source of keys fails. The error is a
// refusal, and the request is not repeated.
func TestFailedSource(t *testing.T) {
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/keys")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	large := make([]byte, 17*mib)
	putValue := func(value []byte) func(ctx context.Context, s *s3.Store) error {
		return func(ctx context.Context, s *s3.Store) error {
			_, err := s.PutIfAbsent(ctx, xorbKey, value)
			return err
		}
	}
	tests := []struct {
		name   string
		probed bool
		good   int // requests for keys before the source fails
		call   func(ctx context.Context, s *s3.Store) error
		failed int // the other requests, with those that clean up
	}{
		{"read", true, 0, func(ctx context.Context, s *s3.Store) error { _, err := s.Size(ctx, xorbKey); return err }, 1},
		{"listing", true, 0, func(ctx context.Context, s *s3.Store) error { _, err := listed(ctx, s); return err }, 1},
		{"deletion", true, 0, func(ctx context.Context, s *s3.Store) error { return s.Delete(ctx, xorbKey) }, 1},
		{"list of uploads", true, 0, func(ctx context.Context, s *s3.Store) error { _, err := s.RemoveStray(ctx, 0); return err }, 1},
		{"probe", false, 0, putValue(nil), 3},
		{"write", true, 0, putValue(nil), 1},
		{"creation of an upload", true, 0, putValue(large), 1},
		{"parts", true, 1, putValue(large), 4},
		{"completion", true, 4, putValue(large), 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				requests := 0 // guarded by mu
				transport := roundTripper(func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					defer mu.Unlock()
					switch step := stepOf(r); {
					case r.URL.Path == "/keys":
						if requests++; requests > tt.good {
							return answer(r, http.StatusServiceUnavailable, "")
						}
						return answer(r, http.StatusOK, fmt.Sprintf(`{"AccessKeyId":"KEY","SecretAccessKey":"s","Token":"t","Expiration":%q}`,
							time.Now().UTC().Format(time.RFC3339))) // for this request only
					case step == "create":
						return answer(r, http.StatusOK, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
					}
					return answer(r, http.StatusOK, "")
				})
				o := s3.Options{Transport: transport, Getenv: getenv(map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/keys"})}
				if tt.probed {
					o.Conditions = everProbed{}
				}
				s, err := s3.Open("s3://bucket", o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				err = tt.call(t.Context(), s)
				if !errors.Is(err, iofs.ErrPermission) || errors.Is(err, origin.ErrUnavailable) {
					t.Errorf("the error is %v, want only %v", err, iofs.ErrPermission)
				}
				if failed := requests - tt.good; failed < 1 || failed > tt.failed {
					t.Errorf("%d failed requests for keys, want at most %d", failed, tt.failed)
				}
			})
		})
	}
}

// everProbed has the result of a probe of every bucket.
type everProbed struct{}

func (everProbed) Conditions(string) (s3.Conditions, bool) {
	return s3.Conditions{Time: time.Now(), Checksum: "crc32c"}, true
}
func (everProbed) PutConditions(string, s3.Conditions) {}

// accessKey returns the access key of a signed request.
func accessKey(r *http.Request) string {
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ = strings.Cut(key, "/")
	return key
}
