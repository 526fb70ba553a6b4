package stack

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// openBucket opens the store at s3://BUCKET/PREFIX.
func openBucket(address string, r Remote) (*s3.Store, error) {
	roots, err := rootCAs(r.getenv, "AWS_CA_BUNDLE")
	if err != nil {
		return nil, err
	}
	o := s3.Options{Getenv: r.getenv, RootCAs: roots, SingleWriter: r.SingleWriter, Limits: r.limits(), Logger: r.Log, Counters: r.Counters}
	if r.CacheDir != "" {
		o.Conditions = conditionFolder(filepath.Join(r.CacheDir, "s3"))
	}
	s, err := s3.Open(address, o)
	if err != nil {
		return nil, ArgumentError{err}
	}
	return s, nil
}

// rootCAs returns the authorities in the file that a variable names; nil: those of the machine.
func rootCAs(getenv func(string) string, variable string) (*x509.CertPool, error) {
	file := getenv(variable)
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, ArgumentError{fmt.Errorf("%s: %s: %w", variable, file, ui.Reason(err))}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, ArgumentError{fmt.Errorf("%s: %s: no certificate in PEM form", variable, file)}
	}
	return pool, nil
}

// A conditionFolder stores Conditions as files. A failure costs another probe.
type conditionFolder string

// path returns the file of a bucket.
func (f conditionFolder) path(id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(string(f), hex.EncodeToString(sum[:16])+".json")
}

// Conditions implements s3.ConditionCache.
func (f conditionFolder) Conditions(id string) (c s3.Conditions, ok bool) {
	b, err := os.ReadFile(f.path(id))
	return c, err == nil && json.Unmarshal(b, &c) == nil
}

// PutConditions implements s3.ConditionCache.
func (f conditionFolder) PutConditions(id string, c s3.Conditions) {
	b, err := json.Marshal(c)
	if err != nil || os.MkdirAll(string(f), 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(string(f), "tmp-")
	if err != nil {
		return
	}
	_, err = tmp.Write(b)
	if tmp.Close() != nil || err != nil || os.Rename(tmp.Name(), f.path(id)) != nil {
		_ = os.Remove(tmp.Name())
	}
}
