package names

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// A Sweep is the state of a sweep under way (gc). It is announced; then it waits, while
// writers that want to use a listed atom again put it into Kept; then it deletes.
//
//	id       32 random hex digits
//	state    "announced" or "deleting"
//	list     key of the list of what is to be deleted
//	kept     keys that writers have taken off the list; may be missing
//	started  nanoseconds since 1970, in a string
//	owner    of the lease, free text; only while deleting
//	lease    end of the lease, nanoseconds since 1970, in a string; only while deleting
type Sweep struct {
	ID       string
	Deleting bool // false: announced
	List     Key
	Kept     []Key
	Started  time.Time
	Owner    string
	Lease    time.Time // zero if not Deleting
}

type sweepWire struct {
	Format  int    `json:"format"`
	ID      string `json:"id"`
	State   string `json:"state"`
	List    Key    `json:"list"`
	Kept    []Key  `json:"kept,omitempty"`
	Started int64  `json:"started,string"`
	Owner   string `json:"owner,omitempty"`
	Lease   *int64 `json:"lease,string,omitempty"`
}

func (w *Sweep) what() string { return "gc" }
func (w *Sweep) limit() int   { return MaxLongDocument }

func (w *Sweep) check() error {
	if err := errors.Join(checkID("id", w.ID), checkTime("started", w.Started), checkText("owner", w.Owner)); err != nil {
		return err
	}
	if list, err := ParseKey(w.List); err != nil || list.Kind != SweepListKind {
		return fmt.Errorf("list %.200q is not the key of a sweep list", w.List)
	}
	for _, k := range w.Kept {
		if err := checkSwept(k); err != nil {
			return err
		}
	}
	switch {
	case w.Deleting:
		return checkTime("lease", w.Lease)
	case w.Owner != "" || !w.Lease.IsZero():
		return errors.New("a lease before the sweep deletes")
	}
	return nil
}

// checkSwept checks that a key is one of an atom, which a sweep may delete.
func checkSwept(k Key) error {
	p, err := ParseKey(k)
	if err != nil {
		return err
	}
	switch p.Kind {
	case VersionKind, PageKind, ShardKind, XorbKind, SweepListKind, ReceiptKind:
		return nil
	}
	return fmt.Errorf("key %.200q: a %v is not for a sweep", k, p.Kind)
}

func (w *Sweep) wire() any {
	v := sweepWire{Format: format, ID: w.ID, State: "announced", List: w.List, Kept: w.Kept, Started: w.Started.UnixNano(), Owner: w.Owner}
	if w.Deleting {
		lease := w.Lease.UnixNano()
		v.State, v.Lease = "deleting", &lease
	}
	return v
}

func (w *Sweep) read(s *scanner) {
	*w = Sweep{}
	leased := false
	s.Object([]string{"id", "state", "list", "started"}, func(name string) {
		switch name {
		case "id":
			w.ID = s.Text()
		case "state":
			w.readState(s)
		case "list":
			w.List = Key(s.Text())
		case "kept":
			s.Array(func(int) { w.Kept = append(w.Kept, s.sweptKey()) })
		case "started":
			w.Started = s.time()
		case "owner":
			w.Owner = s.Text()
		case "lease":
			w.Lease, leased = s.time(), true
		default:
			s.Skip()
		}
	})
	if w.Deleting && !leased {
		s.Fail("no field %q", "lease")
	}
}

func (w *Sweep) readState(s *scanner) {
	switch state := s.Text(); state {
	case "announced":
	case "deleting":
		w.Deleting = true
	default:
		s.Fail("state %.40q is not known", state)
	}
}

// sweptKey reads a key and checks it at once, so that a list of short strings cannot
// become a list of many.
func (s *scanner) sweptKey() Key {
	k := Key(s.Text())
	if err := checkSwept(k); err != nil {
		s.Fail("%v", err)
	}
	return k
}

// EncodeSweepList returns the value of a sweep list: a line for each key, and a line with the
// BLAKE3 of the lines before it. The newline before the last line is not hashed. The keys must
// be sorted.
func EncodeSweepList(keys []Key) ([]byte, error) {
	var b []byte
	for i, k := range keys {
		if err := checkSwept(k); err != nil {
			return nil, fmt.Errorf("sweep list: %w", err)
		}
		if i > 0 && k <= keys[i-1] {
			return nil, errors.New("sweep list: keys are not sorted")
		}
		if i > 0 {
			b = append(b, '\n')
		}
		b = append(b, k...)
	}
	if b = seal(b); len(b) > MaxLongDocument {
		return nil, fmt.Errorf("sweep list: %d bytes, at most %d are allowed", len(b), MaxLongDocument)
	}
	return b, nil
}

// DecodeSweepList is the inverse of EncodeSweepList.
func DecodeSweepList(b []byte) ([]Key, error) {
	text, err := open("sweep list", b, MaxLongDocument)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	var keys []Key
	off := 0
	for l := range bytes.SplitSeq(text, []byte("\n")) {
		k := Key(l)
		if err := checkSwept(k); err != nil {
			return nil, codec.Corrupt("sweep list", int64(off), "%v", err)
		}
		if n := len(keys); n > 0 && k <= keys[n-1] {
			return nil, codec.Corrupt("sweep list", int64(off), "keys are not sorted")
		}
		keys = append(keys, k)
		off += len(l) + 1
	}
	return keys, nil
}
