package lru

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Each step is an operation and the keys afterwards, most recently used first. The cost of an
// entry is its key.
func TestCache(t *testing.T) {
	tests := []struct{ name, steps string }{
		{"evict the oldest", "add 3:3 add 4:43 add 2:24 add 1:124"},
		{"use keeps an entry", "add 3:3 add 4:43 get 3:34 add 5:53"},
		{"add of a present key is a use", "add 3:3 add 4:43 add 3:34 add 5:53"},
		{"evict several", "add 1:1 add 2:21 add 3:321 add 8:8"},
		{"the newest entry stays", "add 9:9 add 1:1"},
		{"removed costs are free", "add 3:3 add 4:43 del 3:4 add 2:24 add 1:124"},
		{"absent keys", "del 1: get 1: add 1:1 get 2:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New[int, string](8, nil)
			words := strings.Fields(tt.steps)
			for i := 0; i < len(words); i += 2 {
				var key int
				var want string
				fmt.Sscanf(words[i+1], "%d:%s", &key, &want)
				step(c, words[i], key)
				if got := c.keys(); got != want {
					t.Fatalf("after step %d, %s %s: %s", i/2, words[i], words[i+1], got)
				}
			}
		})
	}
}

func step(c *Cache[int, string], op string, key int) {
	switch op {
	case "add":
		c.Add(key, fmt.Sprint(key), int64(key))
	case "get":
		c.Get(key)
	case "del":
		c.Remove(key)
	}
}

func (c *Cache[K, V]) keys() (keys string) {
	for key := range c.All() {
		keys += fmt.Sprint(key)
	}
	return keys
}

// linked returns the number of entries in the ring, counted in both directions.
func (c *Cache[K, V]) linked() (n int) {
	for e := c.ring.next; e != &c.ring; e = e.next {
		n++
	}
	back := 0
	for e := c.ring.prev; e != &c.ring; e = e.prev {
		back++
	}
	if back != n {
		return -1
	}
	return n
}

func TestAddReturnsTheStoredValue(t *testing.T) {
	c := New[string, int](10, nil)
	if got := c.Add("a", 1, 1); got != 1 {
		t.Errorf("first Add = %d, want 1", got)
	}
	if got := c.Add("a", 2, 5); got != 1 || c.Cost() != 1 {
		t.Errorf("second Add = %d at cost %d, want 1 at 1", got, c.Cost())
	}
	if !c.Remove("a") || c.Remove("a") {
		t.Error("Remove does not report whether the key had a value")
	}
	if got := c.Add("a", 2, 5); got != 2 || c.Cost() != 5 {
		t.Errorf("Add after Remove = %d at cost %d, want 2 at 5", got, c.Cost())
	}
}

func TestOnEvict(t *testing.T) {
	var evicted []string
	c := New(2, func(key int, value string) { evicted = append(evicted, fmt.Sprint(key, value)) })
	c.Add(1, "a", 1)
	c.Add(2, "b", 1)
	c.Remove(2)
	c.Add(3, "c", 1)
	c.Add(4, "d", 2)
	if want := []string{"1a", "3c"}; !slices.Equal(evicted, want) {
		t.Errorf("evicted %v, want %v", evicted, want)
	}
}

// Random operations never exceed the limit, and the cost is that of the entries.
func TestCacheBounds(t *testing.T) {
	const limit = 100
	r := rand.New(rand.NewPCG(1, 2))
	c := New[int, int64](limit, nil)
	for range 10_000 {
		key, cost := r.IntN(40), int64(r.IntN(20))
		switch r.IntN(3) {
		case 0:
			c.Remove(key)
		case 1:
			c.Get(key)
		default:
			c.Add(key, cost, cost)
		}
		sum := int64(0)
		for _, e := range c.byKey {
			sum += e.value
		}
		if sum != c.Cost() || sum > limit || c.Len() != c.linked() {
			t.Fatalf("%d entries of cost %d, Cost is %d and the limit %d", c.Len(), sum, c.Cost(), limit)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	c := New[int, int](1000, nil)
	for i := range 1000 {
		c.Add(i, i, 1)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Get(i % 1000)
	}
}
