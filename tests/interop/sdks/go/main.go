// A peer of the official Go SDK: `peer client` uses servers, `peer server stdio|http REVISION…` is one.
package main

import (
	"log"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: peer client | peer server stdio|http [REVISION…]")
	}
	switch os.Args[1] {
	case "client":
		useServers()
	case "server":
		serve(os.Args[2], os.Args[3:])
	default:
		log.Fatalf("%q is neither client nor server", os.Args[1])
	}
}
