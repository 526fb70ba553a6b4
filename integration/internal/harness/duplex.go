package harness

import "net/http"

// FullDuplex returns a handler for a reverse proxy whose requests have bodies. Without it, net/http
// closes the body of a request when the response begins. A transport that still reads the body then
// closes its connection in the middle of the response: https://go.dev/issue/40747.
func FullDuplex(proxy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 always is
		proxy.ServeHTTP(w, r)
	})
}
