package main

import (
	"strconv"
	"testing"
)

func TestEnumFlag(t *testing.T) {
	f := newEnum("WHEN", choice[int]{"one", 1}, choice[int]{"two", 2})
	if f.value != 1 || f.String() != "one" || f.given {
		t.Errorf("default: %d, %q, given %t", f.value, &f, f.given)
	}
	if err := f.Set("three"); err == nil || err.Error() != "want one or two" || f.given {
		t.Errorf("Set(three) = %v, given %t", err, f.given)
	}
	if err := f.Set("two"); err != nil || f.value != 2 || f.String() != "two" || !f.given {
		t.Errorf("Set(two) = %v: %d, %q, given %t", err, f.value, &f, f.given)
	}
}

func TestOptional(t *testing.T) {
	f := newOptional("NUMBER", "", strconv.Atoi)
	if f.String() != "" || f.given() || f.pointer() != nil {
		t.Errorf("absent: %q, given %t, %v", &f, f.given(), f.pointer())
	}
	if err := f.Set("x"); err == nil || f.given() {
		t.Errorf("Set(x) = %v, given %t", err, f.given())
	}
	if err := f.Set("0"); err != nil || f.String() != "0" || !f.given() || *f.pointer() != 0 {
		t.Errorf("Set(0) = %v: %q, given %t", err, &f, f.given())
	}
	if f := newOptional("NUMBER", "007", strconv.Atoi); f.value != 7 || f.String() != "7" {
		t.Errorf("default: %d, %q", f.value, &f)
	}
}
