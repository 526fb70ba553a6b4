// Package wrap has decorators of sources. Each changes one thing and forwards the
// rest.
//
// Limit bounds the calls of a Source, Count counts them, and Log logs them.
package wrap
