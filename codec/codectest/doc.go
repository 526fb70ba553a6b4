// Package codectest helps to test formats. It has golden files, vectors of other
// implementations, reproducible bytes, damaged copies, and a time limit for calls that may
// hang.
package codectest
