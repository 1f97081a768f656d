// A peer of the official Go SDK: `peer client` uses servers, `peer server stdio|http REVISION…` is one,
// and `peer judge` says which test vectors the SDK's types accept.
package main

import (
	"log"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: peer client | peer judge | peer server stdio|http [REVISION…]")
	}
	switch os.Args[1] {
	case "client":
		useServers()
	case "judge":
		judge()
	case "server":
		serve(os.Args[2], os.Args[3:])
	default:
		log.Fatalf("%q is none of client, judge and server", os.Args[1])
	}
}
