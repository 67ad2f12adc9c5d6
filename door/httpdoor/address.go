// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/store/memory"
)

const (
	// DefaultIPv6Prefix is the size of the IPv6 networks that count as one caller: a /64 is what
	// one customer, and often one machine, has all of.
	DefaultIPv6Prefix = 64
	// DefaultMaxAddresses is how many addresses the limiter of NewByAddress holds. When there would be more, and all are
	// in use, it forgets every count: strangers get quota back, and nobody else is touched.
	DefaultMaxAddresses = 100_000
	// maxHops is how many trusted hops of X-Forwarded-For are followed.
	maxHops = 32
)

// Addresses say how callers without a credential are told apart. The zero Addresses go by the address of the connection.
type Addresses struct {
	// Trusted are the networks of proxies whose X-Forwarded-For is believed. Of a connection from
	// one of them, the caller is the last address in the field that is not trusted; what stands before it was
	// sent by the caller and says nothing. Empty: no proxy is trusted, and the field is not read.
	Trusted []netip.Prefix
	// IPv6Prefix is the size of the IPv6 networks that count as one caller, from 1 to 128; 0 means DefaultIPv6Prefix.
	IPv6Prefix int
	// Bound is what each caller is held to; the zero Bound means signpost.StrangerBound.
	Bound signpost.Bound
}

// NewByAddress returns a door for handlers without a credential. It counts in a memory of its own, of DefaultMaxAddresses, so that
// strangers can fill no disk and no server and push out no link's counts. o.Identify must be nil.
func NewByAddress(a Addresses, o Options) (*Door, error) {
	identify, err := ByAddress(a)
	if o.Identify != nil {
		err = errors.Join(err, errors.New("httpdoor: Identify is set on a door that goes by address"))
	}
	if err != nil {
		return nil, err
	}
	o.Identify = identify
	return New(signpost.New(memory.New(memory.Options{MaxKeys: DefaultMaxAddresses}), signpost.Options{}), o)
}

// ByAddress returns an Identify that knows callers by their address. It should not share a store with links: see
// NewByAddress. Connections that have no address, such as those of Unix sockets, are one caller. The error
// lists every fault.
func ByAddress(a Addresses) (func(*http.Request) (Caller, error), error) {
	var faults []error
	if a.IPv6Prefix < 0 || a.IPv6Prefix > 128 {
		faults = append(faults, fmt.Errorf("httpdoor: IPv6 prefix %d is not from 1 to 128", a.IPv6Prefix))
	}
	trusted := make([]netip.Prefix, 0, len(a.Trusted))
	for _, p := range a.Trusted {
		if !p.IsValid() {
			faults = append(faults, errors.New("httpdoor: a trusted network is not valid"))
			continue
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		trusted = append(trusted, p.Masked())
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if a.IPv6Prefix == 0 {
		a.IPv6Prefix = DefaultIPv6Prefix
	}
	if a.Bound.IsZero() {
		a.Bound = signpost.StrangerBound()
	}
	return func(r *http.Request) (Caller, error) {
		name := "unknown"
		if client := clientAddr(r, trusted); client.IsValid() {
			name = network(client, a.IPv6Prefix)
		}
		return Caller{Key: signpost.KeyOf("address", name), Bound: a.Bound, Name: name, Kind: render.Address}, nil
	}, nil
}

// network names what counts as one caller: an IPv4 address, or an IPv6 network.
func network(a netip.Addr, ipv6Prefix int) string {
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, ipv6Prefix).Masked().String()
}

// clientAddr returns the address that a request came from: the connection's, or if that is a trusted proxy's,
// the last one before the trusted proxies. If a hop cannot be read, it is the proxy that passed it on. It
// returns the zero Addr if the connection has none.
func clientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	at := parseHop(r.RemoteAddr)
	lines := r.Header["X-Forwarded-For"]
	for hops, line := 0, len(lines)-1; line >= 0; line-- {
		rest := lines[line]
		for more := true; more; hops++ {
			if !isTrusted(at, trusted) || hops == maxHops {
				return at
			}
			var hop string
			if i := strings.LastIndexByte(rest, ','); i >= 0 {
				rest, hop = rest[:i], rest[i+1:]
			} else {
				hop, more = rest, false
			}
			next := parseHop(strings.Trim(hop, " \t"))
			if !next.IsValid() {
				return at
			}
			at = next
		}
	}
	return at
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// parseHop reads an address with or without a port, and an IPv6 address with or without brackets. An IPv4 address inside an
// IPv6 one is that IPv4 address; a zone is dropped.
func parseHop(s string) netip.Addr {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}
		}
		a = ap.Addr()
	}
	return a.Unmap().WithZone("")
}
