package disk

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSyncEndsUnderLoad waits for a sync while there is always something else to do, too.
func TestSyncEndsUnderLoad(t *testing.T) {
	const most = 10_000
	d := newSimDisk()
	b := open(t, d, func(o *Options) {
		o.MaxBytes = 64 << 20
		o.testing.journal = 8 << 20
	})
	var puts atomic.Int64
	synced := make(chan struct{})
	d.setFault(func(op, name string) error {
		if op != "write" || !strings.HasPrefix(name, "seg/") {
			return nil
		}
		select {
		case <-synced:
		default:
			if n := int(puts.Add(1)); n < most {
				_ = b.PutPage(hashOf(n), pageOf(n))
				time.Sleep(100 * time.Microsecond) // the sync needs a processor, too
			}
		}
		return nil
	})
	if err := b.PutPage(hashOf(0), pageOf(0)); err != nil {
		t.Fatal(err)
	}
	if err := b.Sync(); err != nil {
		t.Error(err)
	}
	close(synced)
	if puts.Load() >= most {
		t.Error("it ended when there was nothing else to do")
	}
}

// TestWriterSleepsWhileItSyncs checks that the writer does not poll for the end of a long sync.
func TestWriterSleepsWhileItSyncs(t *testing.T) {
	b := open(t, newSimDisk(), func(o *Options) { o.SyncEvery = time.Millisecond })
	k := b.writer.Load()
	err := k.do(func() error {
		y := k.syncing
		k.syncing.running, k.syncing.unsynced = true, 5
		if pause := k.pause(false); pause < time.Minute {
			t.Errorf("it sleeps for %v", pause)
		}
		k.syncing = y
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestD16_WholeFile loses the power some time after a whole file was stored, and nothing else. The file
// has its entry after that.
func TestD16_WholeFile(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		wait   time.Duration
	}{
		{"SyncEvery", func(o *Options) { o.SyncEvery = time.Second }, 2 * time.Second},
		{"SyncBytes", func(o *Options) { o.SyncBytes = 1000 }, time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newSimDisk()
				b := open(t, d, tt.change)
				b.keepFile(1)
				time.Sleep(tt.wait)
				for seed := range uint64(50) {
					l := newLoad(open(t, d.lostPower(rand.New(rand.NewPCG(seed, 1)))), seed)
					l.untilSure(1)
					if !l.hasFile(1) {
						t.Errorf("seed %d: it is lost", seed)
					}
					l.Close()
				}
			})
		})
	}
}
