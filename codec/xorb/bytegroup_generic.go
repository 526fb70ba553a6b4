//go:build !amd64 && !arm64

package xorb

func groupQuads(g [4][]byte, src []byte, q int)   { groupQuadsGo(g, src, q) }
func ungroupQuads(dst []byte, g [4][]byte, q int) { ungroupQuadsGo(dst, g, q) }
