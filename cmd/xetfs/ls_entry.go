package main

import (
	"github.com/xetfs/xetfs/codec/page"
)

// modeText is the type and mode of an entry as ls spells them: -rw-r--r--, drwxr-xr-x.
func modeText(e page.Entry) string {
	text := []byte("-rwxrwxrwx")
	switch e.Type {
	case page.Dir:
		text[0] = 'd'
	case page.Symlink:
		text[0] = 'l'
	}
	for i := range 9 {
		if e.Mode>>(8-i)&1 == 0 {
			text[1+i] = '-'
		}
	}
	for i, special := range []byte("sst") { // setuid, setgid, sticky
		if e.Mode>>(11-i)&1 == 0 {
			continue
		}
		at := 3 + 3*i
		if text[at] == '-' {
			special -= 'a' - 'A'
		}
		text[at] = special
	}
	return string(text)
}
