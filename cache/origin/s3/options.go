package s3

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// Options tune a Store. The zero value reads a bucket of AWS without credentials.
type Options struct {
	// Getenv returns the value of an environment variable. It is the only way to the
	// environment of this package. nil: no variable is set.
	Getenv func(name string) string

	// RootCAs are the trusted authorities. nil: those of the machine.
	RootCAs *x509.CertPool

	// Conditions stores results of probes. nil: each Store probes.
	Conditions ConditionCache

	// SingleWriter promises that no other process writes to the store. Writes then do not
	// need a bucket that honours conditions, and no probe is made.
	SingleWriter bool

	Limits    fetch.Limits      // of reads
	Attempts  int               // maximum number of answers with an error status per read; 0: 6
	Logger    *slog.Logger      // nil: no log
	Counters  *fetch.Counters   // of all requests but those for credentials; nil: own ones
	Transport http.RoundTripper // for all requests; nil: connections of this Store
}

func (o Options) withDefaults() Options {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Scheme begins the address of a bucket.
const Scheme = "s3://"

// A place is the part of a bucket that holds a store.
type place struct {
	bucket string
	prefix string // of all keys; empty, or ends with a slash
}

// Check returns the problem of an address s3://BUCKET/PREFIX, or nil.
func Check(address string) error {
	_, err := parse(address)
	return err
}

func parse(address string) (place, error) {
	rest, ok := strings.CutPrefix(address, Scheme)
	if !ok {
		return place{}, errors.New("the address of a bucket is " + Scheme + "BUCKET/PREFIX")
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	switch {
	case strings.ContainsAny(bucket, "@:?#"):
		return place{}, errors.New("the address is " + Scheme + "BUCKET/PREFIX; credentials come from the environment or a profile")
	case s3utils.CheckValidBucketName(bucket) != nil:
		return place{}, errors.New("its bucket has no valid name: 3 to 63 letters, digits, dots and hyphens")
	case !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return place{}, errors.New("its prefix is not plain UTF-8 text")
	case strings.ContainsAny(prefix, "?#"):
		return place{}, errors.New("its prefix has a query or a fragment")
	case len(prefix) > maxPrefix:
		return place{}, fmt.Errorf("its prefix is longer than %d bytes", maxPrefix)
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "." || part == ".." {
			return place{}, errors.New("its prefix contains the part . or .., which no store has")
		}
	}
	if prefix != "" {
		prefix += "/"
	}
	return place{bucket, prefix}, nil
}

// maxPrefix leaves room for the longest key. S3 allows 1,024 bytes.
const maxPrefix = 700

// defaultRegion signs requests to servers other than AWS, which often ignore the region.
const defaultRegion = "us-east-1"

// An endpoint is the server of a bucket.
type endpoint struct {
	base        url.URL
	virtualHost bool // the bucket is part of the host name, not of the path
	region      string
}

// endpoint returns the server that the environment names, or AWS.
func (o Options) endpoint(bucket string) (endpoint, error) {
	region := cmp.Or(o.Getenv("AWS_REGION"), o.Getenv("AWS_DEFAULT_REGION"), defaultRegion)
	variable := "AWS_ENDPOINT_URL_S3"
	if o.Getenv(variable) == "" {
		variable = "AWS_ENDPOINT_URL"
	}
	address := o.Getenv(variable)
	e := endpoint{region: region}
	if address == "" {
		// A certificate for *.host covers no bucket with a dot.
		e.virtualHost = !strings.Contains(bucket, ".")
		address = "https://s3." + region + ".amazonaws.com"
	}
	switch style := o.Getenv("XETFS_S3_STYLE"); style {
	case "":
	case "path", "virtual":
		e.virtualHost = style == "virtual"
	default:
		return e, fmt.Errorf("XETFS_S3_STYLE is %.20q; it is path or virtual", style)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return e, fmt.Errorf("%s is not an address such as https://host:9000", variable)
	}
	e.base = url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}
	return e, nil
}

// url returns the address of an object, or of the bucket if key is empty.
func (e endpoint) url(bucket, key string) *url.URL {
	u := e.base
	if e.virtualHost {
		u.Host = bucket + "." + u.Host
		u.Path += "/" + key
	} else {
		u.Path += "/" + bucket + "/" + key
	}
	u.RawPath = s3utils.EncodePath(u.Path)
	return &u
}
