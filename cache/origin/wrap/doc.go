// Package wrap has decorators of stores and sources. Each changes one thing and forwards the
// rest.
//
// In order of use: RetryStore repeats calls of a Store within Limits; Limit, Count and Log
// wrap a Source.
package wrap
