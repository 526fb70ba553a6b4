// Package fetch reads objects over HTTP, for every remote store. A store maps its keys to
// requests; fetch turns a request into bytes.
//
// In order of use: New, Client.ReadAt, ReadPart, ReadWhole, Get, Head, Size, SupportsRanges;
// Client.Transport and Retry for requests of other packages; Close. RetryAfter and IsConfidential
// are for those packages, too. Redirected skips known redirects, and Counters count the requests.
// Errors are those of package origin, and ErrMismatch, ErrIgnored and ErrPastEnd.
//
// # What is believed
//
// Nothing. An answer must have the requested range, length and encoding, and it must not be a
// web page, for example of a login. No more bytes than expected are read, headers included. The
// caller compares the content with its hash. ReadAt and ReadPart continue an interrupted answer
// at once if the server proves with the same ETag that the object is unchanged. The next attempt of
// ReadAt, and ReadWhole, continue without that proof, because replicas may have different ETags.
// Errors contain the key and no address, which may be secret.
//
// # Waiting
//
// An attempt ends without a connection after 5 seconds, or with less than 1 KiB/s for 10
// seconds. Options.Limits bound each call with all its attempts and pauses; then, or when the
// context ends, the call ends. Answers with an error status are counted, at most 6 per call.
// Refused, reset, silent and lost connections are not. After 40 s without any answer the
// origin is down. One probe per second is then sent, and new calls fail within 1 s. Late
// headers are requested once more on another connection. The number of requests at once follows
// the rate of the server. Data and names have separate connections.
package fetch
