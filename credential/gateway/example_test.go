package gateway_test

import (
	"fmt"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/credential/gateway"
)

// A Runner whose commands use a token for one host, and never see it.
func ExampleGateway() {
	rule, err := credential.Parse("api.example.com=env:API_TOKEN")
	if err != nil {
		fmt.Println(err)
		return
	}
	r := nsrun.NewRunner(nsrun.Config{Credentials: []credential.Rule{rule}, Gateway: gateway.Gateway{}})
	defer r.Close()
	fmt.Println("commands send requests to $" + rule.Variable())
	// Output: commands send requests to $NSRUN_CREDENTIAL_API_EXAMPLE_COM_URL
}
