package s3

import (
	"crypto/md5"
	"encoding/base64"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
)

// A checksum is the way in which the server compares an upload with the bytes that were sent.
type checksum string

const (
	byCRC32C checksum = "crc32c" // X-Amz-Checksum-Crc32c
	byMD5    checksum = "md5"    // Content-MD5, for servers that ignore the other
)

const crcHeader = "X-Amz-Checksum-Crc32c"

// header returns the headers with the checksum of a body.
func (c checksum) header(body []byte) map[string]string {
	if c == byMD5 {
		sum := md5.Sum(body)
		return map[string]string{"Content-Md5": base64.StdEncoding.EncodeToString(sum[:])}
	}
	return map[string]string{crcHeader: crcOf(body)}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcOf returns the CRC32C of b, big-endian, in base64.
func crcOf(b []byte) string { return encodeCRC(crc32.Checksum(b, castagnoli)) }

func encodeCRC(sum uint32) string {
	return base64.StdEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// A storedSum is the CRC32C that the server stores with an object; empty if it has none. The
// sum of the sums of N parts ends with -N.
type storedSum string

func sumOf(h http.Header) storedSum { return storedSum(h.Get(crcHeader)) }

// matches reports whether the object has the value. False also means unknown.
func (s storedSum) matches(value []byte) bool {
	sum, parts, composite := strings.Cut(string(s), "-")
	if !composite {
		return sum != "" && sum == crcOf(value)
	}
	n, err := strconv.Atoi(parts)
	if err != nil || n != (len(value)+partSize-1)/partSize {
		return false
	}
	var sums []byte
	for part := range chunks(value) {
		b, _ := base64.StdEncoding.DecodeString(crcOf(part))
		sums = append(sums, b...)
	}
	return sum == crcOf(sums)
}
