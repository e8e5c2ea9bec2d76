//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// FuzzLines: whatever a client writes, the SDK gets whole messages that it can decode, one in a line, and the client
// gets an error in one line for everything else.
func FuzzLines(f *testing.F) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, s := range []string{
		ping, ping + ping, ping + "\n" + ping + "\r\n\n", "[" + ping + ",7,[" + ping + "],null]", "[]", "[", "{", "\x00", "\xff\xfe", `"x"`, "7", "null",
		`{"jsonrpc":"2.0","id":1e400,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":"\u0000\ud800","method":"ping","params":[1,{"a":"` + "\u2028" + `"}]}`,
		`{"jsonrpc":"2.0","ID":1,"Method":"ping","id":2}`, `{"id":null,"jsonrpc":"2.0","result":{},"error":{"code":1,"message":"x"}}`,
		"[" + strings.Repeat("{\"jsonrpc\":\"2.0\",\n\"method\":\"x\"},", 3) + "1]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var owed sync.WaitGroup
		var answers bytes.Buffer
		l := newLines(io.NopCloser(bytes.NewReader(b)), &answers, &owed)
		for in := bufio.NewReader(l); ; {
			line, err := in.ReadBytes('\n')
			if err == io.EOF && len(line) == 0 {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v after %q", b, err, line)
			}
			if _, err := jsonrpc.DecodeMessage(line); err != nil || bytes.ContainsAny(line[:len(line)-1], "\n\x00") {
				t.Errorf("%q: the SDK gets %q: %v", b, line, err)
			}
		}
		owed.Wait()
		close(l.errors)
		for line := range bytes.Lines(answers.Bytes()) {
			var a struct {
				JSONRPC string
				Error   *jsonrpc.Error
			}
			if err := json.Unmarshal(line, &a); err != nil || a.JSONRPC != "2.0" || a.Error == nil || line[len(line)-1] != '\n' {
				t.Errorf("%q: the client gets %q: %v", b, line, err)
			}
		}
	})
}
