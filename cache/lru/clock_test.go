package lru

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// Each step is an operation and the keys afterwards, oldest first. The cost of an entry is its key.
func TestClock(t *testing.T) {
	tests := []struct{ name, steps string }{
		{"evict the oldest", "add 3:3 add 4:34 add 2:42 add 1:421"},
		{"a mark keeps an entry once", "add 3:3 add 4:34 get 3:34 add 5:53 add 6:6"},
		{"add of a present key is a use", "add 3:3 add 4:34 add 3:34 add 5:53"},
		{"evict several", "add 1:1 add 2:12 add 3:123 add 8:8"},
		{"all are marked", "add 3:3 add 4:34 get 3:34 get 4:34 add 5:5"},
		{"the newest entry stays", "add 9:9 add 1:1"},
		{"removed costs are free", "add 3:3 add 4:34 del 3:4 add 2:42 add 1:421"},
		{"absent keys", "del 1: get 1: add 1:1 get 2:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewClock[int, string](8)
			words := strings.Fields(tt.steps)
			for i := 0; i < len(words); i += 2 {
				var key int
				var want string
				fmt.Sscanf(words[i+1], "%d:%s", &key, &want)
				switch words[i] {
				case "add":
					c.Add(key, fmt.Sprint(key), int64(key))
				case "get":
					c.Get(key)
				case "del":
					c.Remove(key)
				}
				if got := c.keys(); got != want {
					t.Fatalf("after step %d, %s %s: %s", i/2, words[i], words[i+1], got)
				}
			}
		})
	}
}

func (c *Clock[K, V]) keys() (keys string) {
	for e := c.ring.next; e != &c.ring; e = e.next {
		keys += fmt.Sprint(e.key)
	}
	return keys
}

func TestClock_AddReturnsTheStoredValue(t *testing.T) {
	c := NewClock[string, int](10)
	if got := c.Add("a", 1, 1); got != 1 {
		t.Errorf("first Add = %d, want 1", got)
	}
	if got := c.Add("a", 2, 5); got != 1 || c.Cost() != 1 {
		t.Errorf("second Add = %d at cost %d, want 1 at 1", got, c.Cost())
	}
	if !c.Remove("a") || c.Remove("a") {
		t.Error("Remove does not report whether the key had a value")
	}
}

func TestClock_GetTakesNoLock(t *testing.T) {
	c := NewClock[int, int](10)
	c.Add(1, 2, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.Get(1); !ok || v != 2 {
		t.Errorf("Get = %d, %v", v, ok)
	}
}

// Concurrent operations never exceed the limit, and the cost is that of the entries.
func TestClock_Bounds(t *testing.T) {
	const limit = 100
	c := NewClock[int, int64](limit)
	var users sync.WaitGroup
	for u := range 4 {
		users.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(u)))
			for range 3000 {
				key := r.IntN(40)
				switch r.IntN(3) {
				case 0:
					c.Remove(key)
				case 1:
					if v, ok := c.Get(key); ok && v != int64(key) {
						t.Errorf("key %d has value %d", key, v)
					}
				default:
					c.Add(key, int64(key), int64(key))
				}
				if n := c.Cost(); n > limit {
					t.Errorf("the cost is %d", n)
				}
			}
		})
	}
	users.Wait()
	var sum int64
	n := 0
	c.byKey.Range(func(_, e any) bool { sum, n = sum+e.(*clockEntry[int, int64]).cost, n+1; return true })
	if sum != c.Cost() || n != c.Len() {
		t.Errorf("%d entries of cost %d, want %d of %d", n, sum, c.Len(), c.Cost())
	}
}

func BenchmarkClock(b *testing.B) {
	c := NewClock[int, int](1000)
	for i := range 1000 {
		c.Add(i, i, 1)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			c.Get(i % 1000)
		}
	})
}
