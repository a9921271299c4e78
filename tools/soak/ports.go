package main

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen outside the range that the system uses for outgoing connections, which could take a port while its
// service is down.
const firstPort, lastPort = 20000, 32000

// freePorts finds n free ports.
func freePorts(n int) ([]string, error) {
	var found []string
	for range 100 * n {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort)))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close() // held until all are found
		if found = append(found, address); len(found) == n {
			return found, nil
		}
	}
	return nil, errors.New("no free ports")
}

// portOf is the port of an address.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address) // it is one of ours
	return port
}
