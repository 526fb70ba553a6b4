package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// A client of a mirror leaves, and its calls end later, in any order. Only then is the source closed.
func TestOwnerClosesMirror(t *testing.T) {
	for _, late := range [][2]time.Duration{{time.Second, time.Minute}, {time.Minute, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			m := NewMirror(nil, nil, nil, 1)
			var ended atomic.Int32
			ow := NewOwner(OwnerOptions{Name: "org", Open: func(context.Context, hub.RepoID) (*Site, func(), error) {
				return &Site{Content: Content{Mirror: m}}, func() {
					if n := ended.Load(); n != 2 {
						t.Errorf("the source is closed after %d of 2 calls of the mirror", n)
					}
				}, nil
			}})
			it, err := ow.find(t.Context(), hub.RepoID{Type: hub.Model, Name: "org/a"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			end := func(ctx context.Context, late time.Duration) error {
				<-ctx.Done()
				time.Sleep(late)
				ended.Add(1)
				return ctx.Err()
			}
			_, err = m.opening.Do(ctx, codec.FileID{}, func(ctx context.Context) (*shard.FileInfo, error) {
				_, _ = m.loading.Do(ctx, codec.Hash{}, func(ctx context.Context) (struct{}, error) { return struct{}{}, end(ctx, late[0]) })
				return nil, end(ctx, late[1])
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			ow.repos.Put(it)
			ow.Close()
		})
	}
}

// Clients leave before the Hub answers. Repositories with a slot are still opened, others are not.
func TestOwnerWithoutClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int32
		answer := make(chan struct{})
		ow := NewOwner(OwnerOptions{Name: "org", Open: func(ctx context.Context, _ hub.RepoID) (*Site, func(), error) {
			opened.Add(1)
			<-answer
			return new(Site), func() {}, ctx.Err()
		}})
		var clients sync.WaitGroup
		for i := range 2 * MaxOpenRepos {
			clients.Go(func() {
				if _, err := ow.find(t.Context(), hub.RepoID{Type: hub.Model, Name: fmt.Sprintf("org/%d", i)}); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		clients.Wait()
		close(answer)
		synctest.Wait()
		if n, open := opened.Load(), ow.repos.Len(); n != MaxOpenRepos || open != openRepos {
			t.Errorf("%d repositories were opened and %d are open, want %d and %d", n, open, MaxOpenRepos, openRepos)
		}
		ow.Close()
	})
}
