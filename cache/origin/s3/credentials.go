package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Limits of a request for credentials. Outside AWS no server answers for the metadata of an
// instance.
const (
	credentialsLimit = 10 * time.Second
	metadataLimit    = time.Second
)

// An instance without keys is asked again after a pause, which doubles each time. Its server may
// have been busy, or a role may be attached later.
const (
	minMetadataPause = 10 * time.Second
	maxMetadataPause = time.Hour
)

// A provider looks for credentials in the order of the AWS tools: environment, profile, web
// identity, container, instance metadata. It returns an error if a source that the environment
// names has none. Without any source, requests are not signed.
type provider struct {
	getenv    func(string) string
	transport http.RoundTripper // nil: that of net/http

	current credentials.Provider // source of keys that expire; nil: static keys or none
	last    credentials.Value    // of current
	decided bool                 // a call had a result

	pause time.Duration // after the last failed request to an instance; 0: none failed
	again time.Time     // the result is valid until then; zero: no such limit
}

func newCredentials(o Options) *credentials.Credentials {
	return credentials.New(&provider{getenv: o.Getenv, transport: o.Transport})
}

// errCredentials means that a configured source of credentials failed.
var errCredentials = fmt.Errorf("%w: no credentials", iofs.ErrPermission)

// RetrieveWithCredContext implements credentials.Provider.
func (p *provider) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	ctx := context.Background()
	if cc != nil && cc.Context != nil {
		ctx = cc.Context
	}
	if p.current != nil {
		return p.renew(ctx)
	}
	p.again = time.Time{}
	v, err := p.retrieve(ctx)
	p.decided = err == nil
	return v, err
}

// renew returns new keys from the same source. The old ones serve until they expire.
func (p *provider) renew(ctx context.Context) (credentials.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialsLimit)
	defer cancel()
	v, err := p.current.RetrieveWithCredContext(&credentials.CredContext{Context: ctx, Client: p.limited(credentialsLimit)})
	switch {
	case err == nil && v.AccessKeyID != "":
		p.last = v
		return v, nil
	case time.Now().Before(p.last.Expiration):
		return p.last, nil
	case err == nil:
		err = errors.New("the source returns none any more")
	}
	return anonymous, fmt.Errorf("%w: they have expired: %w", errCredentials, plain(err))
}

// use stores the source of keys that expire.
func (p *provider) use(source credentials.Provider, v credentials.Value) (credentials.Value, error) {
	if !v.Expiration.IsZero() {
		p.current, p.last = source, v
	}
	return v, nil
}

func (p *provider) retrieve(ctx context.Context) (credentials.Value, error) {
	if v, err := p.fromEnvironment(); err != nil || v.AccessKeyID != "" {
		return v, err
	}
	v, err := p.fromProfile(ctx)
	if err != nil || !v.SignerType.IsAnonymous() {
		return v, err
	}
	return p.fromRole(ctx)
}

// fromEnvironment returns the keys in the environment; none: the zero value. One key without the
// other is an error: an unsigned request would hide the mistake.
func (p *provider) fromEnvironment() (credentials.Value, error) {
	v := credentials.Value{
		AccessKeyID:     p.getenv("AWS_ACCESS_KEY_ID"),
		SecretAccessKey: p.getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken:    p.getenv("AWS_SESSION_TOKEN"),
		SignerType:      credentials.SignatureV4,
	}
	if (v.AccessKeyID == "") != (v.SecretAccessKey == "") {
		return anonymous, fmt.Errorf("%w: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or none of them", errCredentials)
	}
	return v, nil
}

// anonymous is the value without keys.
var anonymous = credentials.Value{SignerType: credentials.SignatureAnonymous}

// fromProfile returns the keys of a profile in the shared files. A profile that AWS_PROFILE does
// not name may be absent.
func (p *provider) fromProfile(ctx context.Context) (credentials.Value, error) {
	named := p.getenv("AWS_PROFILE")
	files := &credentials.FileAWSCredentials{Profile: named}
	v, err := files.RetrieveWithCredContext(&credentials.CredContext{Context: ctx, Client: p.limited(credentialsLimit)})
	switch {
	case err == nil && v.AccessKeyID != "":
		return p.use(files, v)
	case named == "":
		return anonymous, nil
	case err != nil:
		return anonymous, fmt.Errorf("%w: profile %q: %w; check AWS_PROFILE", errCredentials, named, plain(err))
	}
	return anonymous, nil // the profile leads to one of the other sources
}

// fromRole returns the keys of a role: web identity, container or instance.
func (p *provider) fromRole(ctx context.Context) (credentials.Value, error) {
	configured := cmp.Or(p.getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), p.getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
		p.getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")) != ""
	if !configured && p.getenv("AWS_EC2_METADATA_DISABLED") == "true" {
		return anonymous, nil
	}
	limit := credentialsLimit
	if !configured {
		limit = metadataLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	role := &credentials.IAM{}
	v, err := role.RetrieveWithCredContext(&credentials.CredContext{Context: limited, Client: p.limited(limit)})
	switch {
	case err == nil:
		return p.use(role, v)
	case configured:
		return anonymous, fmt.Errorf("%w of a role: %w", errCredentials, plain(err))
	case ctx.Err() != nil:
		return anonymous, ctx.Err()
	}
	p.pause = min(max(2*p.pause, minMetadataPause), maxMetadataPause)
	p.again = time.Now().Add(p.pause)
	return anonymous, nil
}

// limited returns a client with a limit for each request.
func (p *provider) limited(limit time.Duration) *http.Client {
	return &http.Client{Transport: p.transport, Timeout: limit}
}

// plain returns the reason of err without addresses, which may hold secrets, and without kinds.
// An absent profile must not look like an absent name.
func plain(err error) error {
	var path *iofs.PathError
	if errors.As(err, &path) {
		err = fmt.Errorf("%s: %v", path.Path, path.Err) //nolint:errorlint // see above
	}
	return fmt.Errorf("%.300v", withoutAddress(err)) //nolint:errorlint // see above
}

// Retrieve implements credentials.Provider.
func (p *provider) Retrieve() (credentials.Value, error) { return p.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider. Keys are renewed after 80 % of their lifetime.
func (p *provider) IsExpired() bool {
	switch {
	case p.current != nil:
		return p.current.IsExpired()
	case p.again.IsZero():
		return !p.decided
	}
	return !time.Now().Before(p.again)
}

var _ credentials.Provider = (*provider)(nil)
