//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The SDK gives a connection up at the first line that is not a message. So lines filters its input:
//
//	standard input ──► lines ──► the SDK ──► stdout ──► standard output
//	                     └──── errors about invalid lines ────────┘
//
// lines passes on single messages that the SDK can decode. It splits batches, which one version of the protocol had
// (2025-03-26), because the SDK does not answer a batch with a notification in it, and gives up at two of them. So the
// answers are single, too.

// lineMost is the maximum length of a line, in bytes.
const lineMost = 16 << 20

// lines reads one message per line, and answers lines that are not messages.
type lines struct {
	in     *bufio.Reader
	from   io.Closer
	rest   []byte            // of a message that was read
	batch  []json.RawMessage // the rest of one
	errors chan []byte
	owed   *sync.WaitGroup // has those errors
}

// newLines reads from in, and writes errors to out in the background: a client that does not read must not keep us from
// noticing its end. owed counts unwritten errors.
func newLines(in io.ReadCloser, out io.Writer, owed *sync.WaitGroup) *lines {
	l := &lines{in: bufio.NewReaderSize(in, 64<<10), from: in, errors: make(chan []byte, 64), owed: owed}
	go func() {
		for line := range l.errors {
			_, _ = out.Write(line)
			owed.Done()
		}
	}()
	return l
}

func (l *lines) Close() error { return l.from.Close() }

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if len(l.batch) > 0 {
			m := l.batch[0]
			l.batch = l.batch[1:]
			l.take(m)
			continue
		}
		line, whole, err := l.next()
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		switch {
		case !whole:
			l.answer(nil, jsonrpc.CodeParseError, "the line has more than "+strconv.Itoa(lineMost)+" bytes")
		case len(line) == 0:
		case !json.Valid(line):
			l.answer(nil, jsonrpc.CodeParseError, "the line is not JSON")
		case line[0] == '[':
			if err := json.Unmarshal(line, &l.batch); err != nil || len(l.batch) == 0 {
				l.answer(nil, jsonrpc.CodeInvalidRequest, "the batch is empty")
			}
		default:
			l.take(line)
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lines) take(m []byte) {
	if _, err := jsonrpc.DecodeMessage(m); err != nil {
		l.answer(requestID(m), jsonrpc.CodeInvalidRequest, err.Error())
		return
	}
	var one bytes.Buffer // of a batch, which may have line feeds inside
	if json.Compact(&one, m) != nil {
		panic("BUG: JSON that was valid is not")
	}
	one.WriteByte('\n')
	l.rest = one.Bytes()
}

// next reads a line; whole is false if it is too long.
func (l *lines) next() (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := l.in.ReadSlice('\n')
		if whole = whole && len(line)+len(part) <= lineMost; whole {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch {
		case err == bufio.ErrBufferFull:
		case err != nil && (len(line) == 0 || err != io.EOF):
			return nil, true, err
		default:
			return line, whole, nil
		}
	}
}

// requestID is the id of an invalid request, or nil.
func requestID(line []byte) json.RawMessage {
	var r struct{ ID, Method json.RawMessage }
	if json.Unmarshal(line, &r) != nil || r.Method == nil || len(r.ID) == 0 || !bytes.ContainsRune([]byte(`"-0123456789`), rune(r.ID[0])) {
		return nil
	}
	return r.ID
}

// answer answers a line that is not a message. A client that does not read its answers gets no more.
func (l *lines) answer(id json.RawMessage, code int64, text string) {
	line, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": jsonrpc.Error{Code: code, Message: text},
	})
	if err != nil {
		panic("BUG: " + err.Error()) // nothing in it can fail
	}
	l.owed.Add(1)
	select {
	case l.errors <- append(line, '\n'):
	default:
		l.owed.Done()
	}
}

type stdout struct {
	*os.File
	mu sync.Mutex
}

func (o *stdout) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.File.Write(p)
}
