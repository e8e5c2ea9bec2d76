//go:build linux

package nsrun

import (
	"fmt"
	"testing"
)

func TestLoopbackIn(t *testing.T) {
	for text, want := range map[string]string{
		`connect econnrefused 127.0.0.1:5432`:                                                "[127.0.0.1:5432]",
		`failed to connect to localhost port 80 after 0 ms: couldn't connect to server`:      "[127.0.0.1:80 [::1]:80]",
		`psql: error: connection to server at "127.0.0.1", port 5432 failed`:                 "[127.0.0.1:5432]",
		`httpconnectionpool(host='127.0.0.2', port=8000): max retries`:                       "[127.0.0.2:8000]",
		`get "http://localhost:3000/x": dial tcp [::1]:3000: connect: connection refused`:    "[127.0.0.1:3000 [::1]:3000 [::1]:3000]",
		`bash: line 1: /dev/tcp/127.0.0.1/443: connection refused`:                           "[127.0.0.1:443]",
		`reading localhost, 127.0.0.1 and ::1`:                                               "[]",
		`127.0.0.1:0 127.0.0.1:65536 127.0.0.1:99999999999999999999 127.0.0.1.5:1 127.0.1:1`: "[]",
		`192.0.2.127.0.0.1:80`:                         "[127.0.0.1:80]",
		`can't connect to server on '127.0.0.1' (115)`: "[127.0.0.1:115]",
		`127.`: "[]",
		``:     "[]",
	} {
		if got := fmt.Sprint(loopbackIn(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
