// Network runs a shell command that reaches one server and nothing else, and prints what it tried to reach. The server
// is this program's own, on the loopback device: $URL. The rules hold for any program, however it connects; for root
// the kernel enforces them, for others a broker.
//
//	go run ./examples/network 'curl -s $URL; curl https://example.org/'
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/netpolicy"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: network COMMAND")
		os.Exit(2)
	}
	if err := network(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
}

func network(command string) (err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello from the server")
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	addr := listener.Addr().String()

	policy, err := netpolicy.ParsePolicy("tcp:" + addr) // or "example.org:443", "*.example.org"
	if err != nil {
		return err
	}
	r := nsrun.NewRunner(nsrun.Config{Net: policy})
	defer func() { err = errors.Join(err, r.Close()) }()
	res, err := r.Run(context.Background(), nsrun.Request{
		Args: []string{"bash", "-c", command},
		Env:  []string{"URL=http://" + addr},
	})
	if err != nil {
		return err
	}
	fmt.Print(res.Stdout)
	for _, d := range res.Network.Decisions {
		verdict := "denied"
		if d.Allowed {
			verdict = "allowed"
		}
		fmt.Printf("%s: %s", verdict, nsrun.TargetText(d))
		if d.AllowWith != "" {
			fmt.Printf("; nsrun would allow it with %s", d.AllowWith)
		}
		fmt.Println()
	}
	return nil
}
