package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// errorBody is the body of an answer with an error. The message is not used: it may quote the
// signed request.
type errorBody struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Region  string
}

// maxErrorBody bounds the parsed part of an error.
const maxErrorBody = 64 << 10

// word is the form of codes and names of regions.
var word = regexp.MustCompile(`^[A-Za-z0-9-]{1,60}$`)

// parseError returns the error in a body, if there is any.
func parseError(body []byte) (e errorBody) {
	if len(body) > maxErrorBody || xml.Unmarshal(body, &e) != nil || !word.MatchString(e.Code) {
		return errorBody{}
	}
	if !word.MatchString(e.Region) {
		e.Region = ""
	}
	return e
}

// code returns the code of the error in the answer, or "".
func (a *answer) code() string { return parseError(a.body).Code }

// failed reports whether the answer is an error. An upload of many parts may end with an
// error inside a 200.
func (a *answer) failed() bool { return a.status/100 != 2 || a.code() != "" }

// problems describes the codes that a user can do something about.
var problems = map[string]string{
	"InvalidAccessKeyId":    "the server does not know the access key; check AWS_ACCESS_KEY_ID or the profile",
	"XAdminUserNotFound":    "the server does not know the access key; check AWS_ACCESS_KEY_ID or the profile", // of versitygw
	"SignatureDoesNotMatch": "the secret key is wrong; check AWS_SECRET_ACCESS_KEY or the profile",
	"ExpiredToken":          "the session of the credentials has expired; renew them",
	"InvalidToken":          "the session token is wrong; check AWS_SESSION_TOKEN",
	"TokenRefreshRequired":  "the session of the credentials has expired; renew them",
	"RequestTimeTooSkewed":  "the clock of this machine differs from that of the server; set it",
	"AccessDenied":          "access denied",
	"AllAccessDisabled":     "access denied",
	"AccountProblem":        "the account of the bucket has a problem",
	"InvalidObjectState":    "the object is archived; restore it",
}

// regionCodes mean that the bucket is in another region.
var regionCodes = map[string]bool{
	"PermanentRedirect": true, "AuthorizationHeaderMalformed": true,
	"IllegalLocationConstraintException": true, "AuthorizationQueryParametersError": true, "IncorrectEndpoint": true,
}

// An apiError is the answer of the server to a request that it did not carry out.
type apiError struct {
	status int
	code   string // of S3, or ""
	region string // of the bucket, if the server names it
	after  time.Duration
}

// Error implements error.
func (e *apiError) Error() string {
	switch {
	case e.isRegion() && e.region != "":
		return fmt.Sprintf("the bucket is in region %s; set AWS_REGION=%[1]s", e.region)
	case e.isRegion():
		return "the bucket is in another region or at another endpoint; set AWS_REGION or AWS_ENDPOINT_URL"
	case e.isMoving():
		return "the bucket is being set up, and its server sends requests elsewhere; try again in some minutes, or set AWS_REGION to its region"
	case e.status == http.StatusRequestEntityTooLarge:
		return "the server or a proxy before it takes no bodies of this size (413); raise its limit to 16 MiB or more (nginx: client_max_body_size)"
	case e.code == "NoSuchBucket":
		return "the bucket does not exist; create it, or check its name and AWS_ENDPOINT_URL"
	case e.code == "InvalidBucketName":
		return "the server accepts no bucket of this name; check it"
	case problems[e.code] != "":
		return problems[e.code]
	case e.code != "":
		return fmt.Sprintf("the server answers %d %s", e.status, e.code)
	}
	return fmt.Sprintf("the server answers %d %s", e.status, http.StatusText(e.status))
}

func (e *apiError) isRegion() bool {
	return regionCodes[e.code] || e.status/100 == 3 && !e.isMoving()
}

// isMoving reports whether the name of a new bucket does not lead to its server yet.
func (e *apiError) isMoving() bool { return e.status == http.StatusTemporaryRedirect && e.region == "" }

// isTemporary reports whether the same request may succeed later.
func (e *apiError) isTemporary() bool {
	if e.isMoving() {
		return true
	}
	switch e.code {
	case "SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "OperationAborted", "Busy", "ThrottlingException":
		return true
	}
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusConflict:
		return true
	}
	return e.status >= 500 && e.status != http.StatusNotImplemented
}

// isMissing reports whether the object does not exist. Some servers answer 404 for unknown keys of
// an account, too.
func (e *apiError) isMissing() bool {
	return e.status == http.StatusNotFound && (e.code == "" || e.code == "NoSuchKey" || e.code == "NoSuchVersion")
}

// isRefused reports whether the credentials are refused.
func (e *apiError) isRefused() bool {
	if e.isRegion() {
		return false
	}
	return problems[e.code] != "" || e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}

// apiError returns the error of an answer.
func (a *answer) apiError() *apiError { return newError(a.status, a.header, a.body) }

func newError(status int, header http.Header, body []byte) *apiError {
	parsed := parseError(body)
	e := &apiError{status: status, code: parsed.Code, region: parsed.Region}
	if region := header.Get("X-Amz-Bucket-Region"); e.region == "" && word.MatchString(region) {
		e.region = region
	}
	e.after = fetch.RetryAfter(header)
	if status/100 == 2 {
		e.status = http.StatusInternalServerError // an error inside a 200
		if e.code == "PreconditionFailed" {
			e.status = http.StatusPreconditionFailed
		}
	}
	return e
}

// wrap translates an error of a request for what into a kind of origin.
func wrap(ctx context.Context, what string, err error) error {
	var e *apiError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%q: %w", what, ctx.Err())
	case errors.As(err, &e):
		return fmt.Errorf("%q: %w", what, e.kind())
	case errors.Is(err, errCredentials):
		return fmt.Errorf("%q: %w", what, err)
	}
	return fmt.Errorf("%q: %w: %v", what, origin.ErrUnavailable, err) //nolint:errorlint // foreign
}

// kind returns e with its kind of origin.
func (e *apiError) kind() error {
	switch {
	case e.isMissing():
		return origin.ErrNotFound
	case e.isTemporary():
		return &origin.HintError{Err: fmt.Errorf("%w: %w", origin.ErrUnavailable, e), After: e.after}
	case e.isRefused():
		return fmt.Errorf("%w: %w", iofs.ErrPermission, e)
	}
	return &origin.HintError{Err: fmt.Errorf("%w: %w", origin.ErrUnavailable, e), Tries: 1}
}

// classify is fetch.Options.Classify.
func classify(r *http.Response, body []byte) error {
	return newError(r.StatusCode, r.Header, body).kind()
}

// withoutAddress removes the address of a request from an error of net/http.
func withoutAddress(err error) error {
	var address *url.Error
	if errors.As(err, &address) {
		return address.Err
	}
	return err
}
