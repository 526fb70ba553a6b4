// Package origin defines where bytes are read from. Each layer that can be swapped implements
// one of two interfaces.
//
// A Store keeps objects under keys: a directory, a bucket, a web server. It is small,
// and the same for data and catalog.
//
// A Source is the base of the read path: which terms, which chunks of them, which bytes.
// Package objects makes a Source out of any Store. Decorators are Sources over Sources.
package origin
