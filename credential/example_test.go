package credential_test

import (
	"fmt"

	"github.com/nsrun/nsrun/credential"
)

func ExampleRule() {
	r, err := credential.Parse("api.example.com=file:~/.secrets/api,header=X-Api-Key,url=API_BASE/v1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Name(), r.HeaderName(), r.Variable())
	// Output: api.example.com X-Api-Key NSRUN_CREDENTIAL_API_EXAMPLE_COM_URL
}
