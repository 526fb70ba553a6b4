package recent

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An item is what a Set of a test keeps open.
type item struct{ closed atomic.Int32 }

const (
	most = 4
	idle = 10 * time.Second
)

// A countedSet is a Set that counts what is open, also of what was taken out.
type countedSet struct {
	*Set[int, *item]
	open atomic.Int32
}

func newCountedSet(t *testing.T) *countedSet {
	s := new(countedSet)
	s.Set = New[int](most, idle, func(x *item) {
		if x.closed.Add(1) != 1 {
			t.Error("it is closed twice")
		}
		s.open.Add(-1)
	})
	return s
}

// add opens one and adds it.
func (s *countedSet) add(key int) *Item[int, *item] {
	s.open.Add(1)
	return s.Add(key, new(item))
}

func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCountedSet(t)
		expect := func(when string, want int32) {
			t.Helper()
			synctest.Wait()
			if got := s.open.Load(); got != want {
				t.Errorf("%s: %d are open, want %d", when, got, want)
			}
		}
		a, again := s.add(1), s.add(1)
		if a != again {
			t.Error("two users of one key have two things")
		}
		expect("opened twice", 1)
		s.Put(a)
		if found := s.Find(1); found != a {
			t.Error("it is not found")
		}
		s.Put(a)
		s.Put(a)
		time.Sleep(2*idle + 1)
		expect("idle", 0)
		if s.Find(1) != nil {
			t.Error("it is found after it was closed")
		}
		b := s.add(2)
		time.Sleep(3 * idle)
		expect("used for long", 1)
		s.Forget(2)
		expect("forgotten in use", 1)
		s.Put(b)
		expect("forgotten and used", 0)
		s.Put(s.add(3))
		s.Forget(3)
		s.Forget(4)
		expect("forgotten", 0)
		c := s.add(5)
		s.Put(s.add(6))
		s.Close()
		expect("closed in use", 1)
		s.Put(c)
		expect("closed and used", 0)
		if !s.Closed() {
			t.Error("it does not know that it is closed")
		}
		late := s.add(7)
		expect("opened after the end", 1)
		s.Put(late)
		expect("opened and used after the end", 0)
		s.Close()
	})
}

// The most recently used values stay, whatever order they were opened in.
func TestSet_Most(t *testing.T) {
	s := newCountedSet(t)
	defer s.Close()
	used := s.add(0)
	for i := 1; i < most; i++ {
		s.Put(s.add(i))
	}
	s.Put(s.Find(1))
	for i := most; i < most+2; i++ {
		s.Put(s.add(i))
	}
	kept := ""
	for i := range most + 2 {
		if it := s.Find(i); it != nil {
			kept += fmt.Sprint(i)
			s.Put(it)
		}
	}
	if kept != "1345" || s.Len() != most {
		t.Errorf("%s are kept, %d in all, want 1345", kept, s.Len())
	}
	if got := s.open.Load(); got != most+1 || used.Value.closed.Load() != 0 {
		t.Errorf("%d are open, want %d and the one that is used", got, most)
	}
	s.Put(used)
	if used.Value.closed.Load() != 1 {
		t.Error("what was taken out in use is not closed after it")
	}
}

// CloseUnused closes the oldest unused value that was not found since its last look.
func TestSet_CloseUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCountedSet(t)
		defer s.Close()
		used := s.add(0)
		for i := 1; i < most; i++ {
			s.Put(s.add(i))
		}
		s.Put(s.Find(1))
		for _, closed := range []int{2, 3, 1} {
			if !s.CloseUnused() || s.Find(closed) != nil {
				t.Errorf("value %d is open", closed)
			}
		}
		synctest.Wait()
		if got := s.open.Load(); s.CloseUnused() || got != 1 {
			t.Errorf("%d are open, want the one that is used", got)
		}
		s.Put(used)
		if !s.CloseUnused() || s.Len() != 0 {
			t.Error("the last value is open")
		}
	})
}

// A value stays open between uses closer than the idle time, and not much longer.
func TestSet_Idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCountedSet(t)
		s.Put(s.add(1))
		for range 20 {
			time.Sleep(idle - 1)
			it := s.Find(1)
			if it == nil {
				t.Fatal("it was closed though it is used")
			}
			s.Put(it)
		}
		time.Sleep(2*idle + 1)
		synctest.Wait()
		if got := s.open.Load(); got != 0 {
			t.Errorf("%d are open", got)
		}
	})
}

// Nothing is closed while it is used, and everything in the end, once.
func TestSet_Storm(t *testing.T) {
	s := newCountedSet(t)
	s.idle = time.Millisecond
	var users sync.WaitGroup
	for u := range 8 {
		users.Go(func() {
			for i := range 2000 {
				key := (i*(u+1) + u) % (2 * most)
				it := s.Find(key)
				if it == nil {
					it = s.add(key)
				}
				if it.Value.closed.Load() != 0 {
					t.Error("it is used and closed")
				}
				if i%50 == u {
					s.Forget(key)
				}
				if i%70 == u {
					s.CloseUnused()
				}
				s.Put(it)
				if u == 0 && i == 1500 {
					s.Close()
				}
			}
		})
	}
	users.Wait()
	s.Close()
	if got := s.open.Load(); got != 0 {
		t.Errorf("%d are open in the end", got)
	}
}
