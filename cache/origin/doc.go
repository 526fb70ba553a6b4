// Package origin says where bytes come from. Everything that can be swapped on the
// way to them is swapped at one of two interfaces.
//
// A Store keeps objects under keys: a directory, a bucket, a web server. It is small,
// and the same for data and catalog.
//
// A Source is what the read path is built on: which terms, which chunks of them, which
// bytes. Objects makes one out of any Store. Decorators are Sources over Sources.
package origin
