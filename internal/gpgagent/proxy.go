package gpgagent

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/clients"
)

// A Proxy serves the clients of one sandbox. Its functions are called from several goroutines.
type Proxy struct {
	// Dial connects to the agent.
	Dial func(ctx context.Context) (net.Conn, error)
	// Grips are the keygrips of the keys that clients can use, in capitals.
	Grips []string
	// Sign reports whether the key may sign a hash (hexadecimal), by an algorithm. It is called for each signature.
	Sign func(ctx context.Context, grip, algorithm, hash string) bool
}

// Limits of one sandbox.
const (
	maxClients = 8 // at once; more wait
	maxLine    = 1000
	maxAnswer  = 2000 // lines of the agent's to one command
)

// Serve serves clients until the context ends or the listener is closed. It closes the listener, and returns when all
// clients have ended.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) {
	clients.Serve(ctx, l, maxClients, p.client)
}

// The errors of gpg-agent (libgpg-error, with the source gpg-agent).
const (
	errForbidden = "ERR 67109115 Forbidden <GPG Agent>"
	errCanceled  = "ERR 67108963 Operation cancelled <GPG Agent>"
	errGeneral   = "ERR 67108865 General error <GPG Agent>"
	errNoKey     = "ERR 67108881 No secret key <GPG Agent>"
)

// client is one connection, with its settings.
type client struct {
	proxy                 *Proxy
	in, agentIn           *bufio.Reader
	conn, agent           net.Conn
	grip, algorithm, hash string
}

func (p *Proxy) client(ctx context.Context, conn net.Conn) {
	agent, err := p.Dial(ctx)
	if err != nil {
		return
	}
	defer agent.Close()
	defer context.AfterFunc(ctx, func() { _ = agent.Close() })()
	c := &client{proxy: p, conn: conn, agent: agent, in: bufio.NewReaderSize(conn, maxLine+2), agentIn: bufio.NewReaderSize(agent, 4*maxLine)}
	if line, err := readLine(c.agentIn); err != nil || !strings.HasPrefix(line, "OK") {
		return
	}
	for answer := "OK Pleased to meet you"; ; {
		if _, err := conn.Write([]byte(answer + "\n")); err != nil {
			return
		}
		line, err := readLine(c.in)
		if err != nil {
			return
		}
		command, rest, _ := strings.Cut(line, " ")
		if strings.EqualFold(command, "BYE") {
			_, _ = conn.Write([]byte("OK closing connection\n"))
			return
		}
		if answer, err = c.answer(ctx, strings.ToUpper(command), strings.TrimSpace(rest)); err != nil {
			return
		}
	}
}

// readLine reads a line without its end. A line that is too long is an error.
func readLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(string(b[:len(b)-1]), "\r"), nil
}

// answer returns the answer to a command. An error ends the connection.
func (c *client) answer(ctx context.Context, command, rest string) (string, error) {
	switch command {
	case "RESET":
		c.grip, c.algorithm, c.hash = "", "", ""
		return "OK", nil
	case "NOP", "OPTION", "SETKEYDESC":
		return "OK", nil
	case "GETINFO":
		if rest == "version" {
			return c.call("GETINFO version")
		}
	case "AGENT_ID":
		return errForbidden, nil
	case "HAVEKEY":
		for _, grip := range strings.Fields(rest) {
			if c.has(grip) {
				return "OK", nil
			}
		}
		return errNoKey, nil
	case "KEYINFO":
		if c.has(rest) {
			return c.call("KEYINFO " + strings.ToUpper(rest))
		}
		return errNoKey, nil
	case "SIGKEY", "SETKEY":
		c.grip = ""
		if c.has(rest) {
			c.grip = strings.ToUpper(rest)
			return "OK", nil
		}
		return errNoKey, nil
	case "SETHASH":
		c.algorithm, c.hash = parseHash(rest)
		if c.hash != "" {
			return "OK", nil
		}
		return errGeneral, nil
	case "PKSIGN":
		return c.sign(ctx)
	}
	return errForbidden, nil
}

// has reports whether clients can use the key with a keygrip.
func (c *client) has(grip string) bool {
	for _, g := range c.proxy.Grips {
		if len(grip) == 40 && strings.EqualFold(g, grip) {
			return true
		}
	}
	return false
}

// algorithms are OpenPGP's hashes, with their numbers and lengths in bytes.
var algorithms = [...]struct {
	number, name string
	size         int
}{{"2", "sha1", 20}, {"8", "sha256", 32}, {"9", "sha384", 48}, {"10", "sha512", 64}, {"11", "sha224", 28}}

// parseHash reads a number or "--hash=NAME", and the hash.
func parseHash(text string) (algorithm, hash string) {
	which, hash, _ := strings.Cut(text, " ")
	for _, a := range algorithms {
		if (which == a.number || which == "--hash="+a.name) && len(hash) == 2*a.size && strings.Trim(hash, "0123456789abcdefABCDEF") == "" {
			return a.name, strings.ToUpper(hash)
		}
	}
	return "", ""
}

// sign has the agent sign, if Sign allows it.
func (c *client) sign(ctx context.Context) (string, error) {
	grip, algorithm, hash := c.grip, c.algorithm, c.hash
	if grip == "" || hash == "" {
		return errGeneral, nil
	}
	c.hash = "" // each signature needs its own yes
	if !c.proxy.Sign(ctx, grip, algorithm, hash) {
		return errCanceled, nil
	}
	for _, line := range [...]string{"RESET", "SIGKEY " + grip, "SETKEYDESC A+command+in+a+sandbox+of+nsrun+signs", "SETHASH --hash=" + algorithm + " " + hash} {
		if answer, _, err := c.exchange(line); err != nil || !strings.HasPrefix(answer, "OK") {
			return errGeneral, err
		}
	}
	return c.call("PKSIGN")
}

// call sends a request to the agent, and passes the answer on to the client.
func (c *client) call(line string) (string, error) {
	answer, data, err := c.exchange(line)
	if err != nil {
		return "", err
	}
	for _, d := range data {
		if _, err := c.conn.Write([]byte(d + "\n")); err != nil {
			return "", err
		}
	}
	return answer, nil
}

// exchange sends a request to the agent, and returns the answer. It refuses what the agent asks in between.
func (c *client) exchange(line string) (answer string, data []string, err error) {
	if _, err := c.agent.Write([]byte(line + "\n")); err != nil {
		return "", nil, err
	}
	for range maxAnswer {
		got, err := readLine(c.agentIn)
		if err != nil {
			return "", nil, err
		}
		switch word, _, _ := strings.Cut(got, " "); word {
		case "OK", "ERR":
			return got, data, nil
		case "INQUIRE":
			if _, err := c.agent.Write([]byte("CAN\n")); err != nil {
				return "", nil, err
			}
		case "D":
			data = append(data, got)
		case "S":
			if strings.HasPrefix(got, "S KEYINFO ") {
				data = append(data, got)
			}
		}
	}
	return "", nil, errors.New("the answer of the agent has more than " + strconv.Itoa(maxAnswer) + " lines")
}
