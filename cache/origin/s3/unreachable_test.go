package s3_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec/names"
)

// O28: the error of a bucket that never answers contains the reason, also for a listing.
func TestO28_Unreachable(t *testing.T) {
	open := func() *s3.Store { // the limit begins with the first call of a store
		return openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{
			Limits: fetch.Limits{First: 2 * time.Second},
			Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				return nil, errors.New("connection refused")
			}),
		})
	}
	_, err := open().Size(t.Context(), names.SettingsKey())
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Size = %v", err)
	}
	for _, err := range open().List(t.Context(), "vref/", "") {
		if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("List = %v", err)
		}
	}
}
