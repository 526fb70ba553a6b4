// Package arena has reusable memory for unpacked chunks. Fresh memory of the heap is expensive:
// the kernel provides it page by page, which takes half as long as unpacking a chunk. It also
// makes the garbage collector run more often.
//
// In order of use: New, Bytes, Stays, Free, Close.
package arena
