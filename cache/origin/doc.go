// Package origin defines where bytes are read from. Each layer that can be swapped implements
// one of two interfaces.
//
// A Store stores objects under keys: a directory, a bucket or a web server. Data and catalog use
// the same interface.
//
// A Source is the base of the read path. It returns the terms of a file, the chunks of a term and
// their bytes. Package objects makes a Source of a Store, and package wrap decorates Sources.
package origin
