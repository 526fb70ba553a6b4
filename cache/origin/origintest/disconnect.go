package origintest

import (
	"errors"
	"net/http/httptest"
)

// A Disconnecting is a client that reads the headers of an answer. It disconnects during the first
// write of the body, once the content is being read.
type Disconnecting struct {
	*httptest.ResponseRecorder
	Reading    <-chan struct{}
	Disconnect func()
}

// Write implements http.ResponseWriter.
func (d *Disconnecting) Write([]byte) (int, error) {
	<-d.Reading
	d.Disconnect()
	return 0, errors.New("the client has disconnected")
}
