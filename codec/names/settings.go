package names

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/xetfs/xetfs/codec/page"
)

// Settings are what all users of a catalog agree on (cref). They are written once.
//
//	id        32 random hex digits
//	created   nanoseconds since 1970, in a string
//	page      {min, max, bits, restart}: where index pages end
//	block     rows in one element of a version list
//	window_s  seconds within which a writer commits what it has looked up
//	grace_s   seconds that deleted things are kept
type Settings struct {
	ID      string
	Created time.Time
	Page    page.Sizes
	Block   int
	Window  time.Duration // whole seconds
	Grace   time.Duration // whole seconds
}

// DefaultSettings are those of a new catalog with a random id of 32 hex digits.
func DefaultSettings(id string, created time.Time) *Settings {
	return &Settings{
		ID: id, Created: created, Page: page.DefaultSizes(), Block: 128,
		Window: time.Hour, Grace: 7 * 24 * time.Hour,
	}
}

// maxSeconds is about 68 years.
const maxSeconds = math.MaxInt32

type settingsWire struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Created int64     `json:"created,string"`
	Page    sizesWire `json:"page"`
	Block   int       `json:"block"`
	Window  int64     `json:"window_s"`
	Grace   int64     `json:"grace_s"`
}

type sizesWire struct {
	Min     int `json:"min"`
	Max     int `json:"max"`
	Bits    int `json:"bits"`
	Restart int `json:"restart"`
}

func (t *Settings) what() string { return "cref" }
func (t *Settings) limit() int   { return MaxDocument }

func (t *Settings) check() error {
	if err := errors.Join(checkID("id", t.ID), checkTime("created", t.Created), t.Page.Check()); err != nil {
		return err
	}
	if t.Block < 1 || t.Block > 4096 {
		return fmt.Errorf("block of %d rows, 1 to 4096 are allowed", t.Block)
	}
	for _, d := range []time.Duration{t.Window, t.Grace} {
		if d < time.Second || d > maxSeconds*time.Second || d%time.Second != 0 {
			return fmt.Errorf("window or grace of %v, whole seconds are allowed", d)
		}
	}
	return nil
}

func (t *Settings) wire() any {
	return settingsWire{
		Format: format, ID: t.ID, Created: t.Created.UnixNano(), Page: sizesWire(t.Page), Block: t.Block,
		Window: int64(t.Window / time.Second), Grace: int64(t.Grace / time.Second),
	}
}

func (t *Settings) read(s *scanner) {
	*t = Settings{}
	s.Object([]string{"id", "created", "page", "block", "window_s", "grace_s"}, func(name string) {
		switch name {
		case "id":
			t.ID = s.Text()
		case "created":
			t.Created = s.time()
		case "page":
			t.readSizes(s)
		case "block":
			t.Block = s.small()
		case "window_s":
			t.Window = time.Duration(s.small()) * time.Second
		case "grace_s":
			t.Grace = time.Duration(s.small()) * time.Second
		default:
			s.Skip()
		}
	})
}

func (t *Settings) readSizes(s *scanner) {
	s.Object([]string{"min", "max", "bits", "restart"}, func(name string) {
		switch name {
		case "min":
			t.Page.Min = s.small()
		case "max":
			t.Page.Max = s.small()
		case "bits":
			t.Page.Bits = s.small()
		case "restart":
			t.Page.Restart = s.small()
		default:
			s.Skip()
		}
	})
}
