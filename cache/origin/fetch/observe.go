package fetch

import "net/http"

// observed returns a RoundTripper that calls observe with each answer; nil: t.
func observed(t http.RoundTripper, observe func(*http.Response)) http.RoundTripper {
	if observe == nil {
		return t
	}
	return &observer{t, observe}
}

type observer struct {
	http.RoundTripper
	observe func(*http.Response)
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(r)
	if err == nil {
		o.observe(resp)
	}
	return resp, err
}

// CloseIdleConnections is called by http.Client.
func (o *observer) CloseIdleConnections() { closeIdle(o.RoundTripper) }

// closeIdle closes the idle connections of a RoundTripper that has any.
func closeIdle(t http.RoundTripper) {
	if t, ok := t.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
