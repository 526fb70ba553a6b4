package ignore

import "errors"

// matchName reports whether a pattern matches a name. The number of steps is at most the
// product of both lengths, because only the last "*" is extended.
func matchName(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, n
			p++
			continue
		}
		if size, ok := matchByte(pattern[p:], name[n]); ok {
			p, n = p+size, n+1
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, n = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchByte matches the first element of a pattern, which is no "*", with one byte. It
// returns the length of the element.
func matchByte(pattern string, c byte) (size int, ok bool) {
	switch {
	case pattern == "":
		return 0, false
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '[':
		return matchSet(pattern, c)
	case pattern[0] == '\\':
		return 2, pattern[1] == c
	}
	return 1, pattern[0] == c
}

// matchSet is matchByte for a set in brackets.
func matchSet(pattern string, c byte) (size int, ok bool) {
	i := 1
	not := pattern[i] == '!' || pattern[i] == '^'
	if not {
		i++
	}
	for first := true; first || pattern[i] != ']'; first = false {
		low, next := setByte(pattern, i)
		high := low
		if pattern[next] == '-' && pattern[next+1] != ']' {
			high, next = setByte(pattern, next+1)
		}
		ok = ok || low <= c && c <= high
		i = next
	}
	return i + 1, ok != not
}

// setByte returns the byte at i of a set, and the index of the next one.
func setByte(pattern string, i int) (c byte, next int) {
	if pattern[i] == '\\' {
		i++
	}
	return pattern[i], i + 1
}

// checkGlob returns the defect of a pattern. matchName needs a pattern without one.
func checkGlob(pattern string) error {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
			if i == len(pattern) {
				return errors.New("a backslash with nothing behind it")
			}
		case '[':
			end, err := setEnd(pattern, i)
			if err != nil {
				return err
			}
			i = end
		}
	}
	return nil
}

// setEnd returns the index of the bracket that closes the set at i.
func setEnd(pattern string, i int) (int, error) {
	i++
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		i++
	}
	for first := true; i < len(pattern); first = false {
		switch {
		case pattern[i] == ']' && !first:
			return i, nil
		case pattern[i] == '[' && i+1 < len(pattern) && pattern[i+1] == ':':
			return 0, errors.New("classes with names are not known here")
		case pattern[i] == '\\':
			i++
		}
		i++
	}
	return 0, errors.New("a [ without its ]")
}
