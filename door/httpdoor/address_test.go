// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

func identifyBy(t testing.TB, a httpdoor.Addresses) func(peer string, forwarded ...string) httpdoor.Caller {
	t.Helper()
	identify, err := httpdoor.ByAddress(a)
	if err != nil {
		t.Fatal(err)
	}
	return func(peer string, forwarded ...string) httpdoor.Caller {
		c, err := identify(&http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": forwarded}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func TestAddresses(t *testing.T) {
	trusting := httpdoor.Addresses{Trusted: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:192.168.1.9/120"), netip.MustParsePrefix("fd00::1/8"), netip.MustParsePrefix("fe80::/10"),
	}}
	for _, c := range []struct {
		name      string
		addresses httpdoor.Addresses
		peer      string
		forwarded []string
		want      string
	}{
		{"the peer", httpdoor.Addresses{}, "203.0.113.7:1234", nil, "203.0.113.7"},
		{"nobody is trusted", httpdoor.Addresses{}, "10.0.0.1:1", []string{"203.0.113.7"}, "10.0.0.1"},
		{"the peer is not trusted", trusting, "203.0.113.7:1", []string{"198.51.100.7"}, "203.0.113.7"},
		{"behind a proxy", trusting, "10.0.0.1:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"what the client claims", trusting, "10.0.0.1:1", []string{"1.1.1.1, 2.2.2.2,203.0.113.7"}, "203.0.113.7"},
		{"behind two", trusting, "10.0.0.1:1", []string{"1.1.1.1, 203.0.113.7 ,\t10.9.9.9"}, "203.0.113.7"},
		{"over lines", trusting, "10.0.0.1:1", []string{"1.1.1.1", "203.0.113.7", "10.9.9.9, 10.8.8.8"}, "203.0.113.7"},
		{"only proxies", trusting, "10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"the proxy says nothing", trusting, "10.0.0.1:1", nil, "10.0.0.1"},
		{"the proxy says nothing, twice", trusting, "10.0.0.1:1", []string{"", ""}, "10.0.0.1"},
		{"it cannot be read", trusting, "10.0.0.1:1", []string{"203.0.113.7, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"with a port", trusting, "10.0.0.1:1", []string{"203.0.113.7:5555"}, "203.0.113.7"},
		{"mapped peers and networks", trusting, "[::ffff:192.168.9.9]:1", []string{"203.0.113.7"}, "192.168.9.9"},
		{"mapped proxy", trusting, "[::ffff:192.168.1.1]:1", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		{"a network with host bits", trusting, "[fd12::5]:1", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"},
		{"v6 in brackets", trusting, "[fd12::5]:1", []string{"[2001:db8::1]"}, "2001:db8::/64"},
		{"v6 in brackets with a port", trusting, "[fd12::5]:1", []string{"[2001:db8::1]:80"}, "2001:db8::/64"},
		{"v6 prefix", httpdoor.Addresses{IPv6Prefix: 48}, "[2001:db8:1:2::1]:1", nil, "2001:db8:1::/48"},
		{"v6, each address", httpdoor.Addresses{IPv6Prefix: 128}, "[2001:db8::1]:1", nil, "2001:db8::1/128"},
		{"a zone", httpdoor.Addresses{}, "[fe80::1%eth0]:1", nil, "fe80::/64"},
		{"a proxy with a zone", trusting, "[fe80::1%eth0]:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a Unix socket", httpdoor.Addresses{}, "@", nil, "unknown"},
		{"no address", trusting, "", []string{"203.0.113.7"}, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := identifyBy(t, c.addresses)(c.peer, c.forwarded...)
			if got.Name != c.want || got.Key != signpost.KeyOf("address", c.want) || got.Bound != signpost.StrangerBound() || got.Kind != render.Address {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
}

// The same network in any notation is one caller.
func TestOneNetworkOneKey(t *testing.T) {
	by := identifyBy(t, httpdoor.Addresses{})
	if by("[2001:db8::1]:1").Key != by("[2001:db8::ffff:0:0:1]:2").Key {
		t.Error("two addresses of one /64 are two callers")
	}
	if by("[2001:db8::1]:1").Key == by("[2001:db8:0:1::1]:1").Key {
		t.Error("two /64 are one caller")
	}
	if by("[::ffff:203.0.113.7]:1").Key != by("203.0.113.7:2").Key {
		t.Error("an IPv4 address inside an IPv6 one is somebody else")
	}
}

// However long the field is, only so much of it is read.
func TestManyHops(t *testing.T) {
	by := identifyBy(t, httpdoor.Addresses{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if got := by("10.0.0.1:1", "203.0.113.7"+strings.Repeat(", 10.0.0.2", 31)).Name; got != "203.0.113.7" {
		t.Errorf("31 proxies: %s", got)
	}
	if got := by("10.0.0.1:1", "203.0.113.7"+strings.Repeat(", 10.0.0.2", 32)).Name; got != "10.0.0.2" {
		t.Errorf("32 proxies: %s", got)
	}
}

func TestAddressFaults(t *testing.T) {
	_, err := httpdoor.NewByAddress(httpdoor.Addresses{IPv6Prefix: 129, Trusted: []netip.Prefix{{}}}, httpdoor.Options{Identify: caller("1/min")})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"129 is not from 1 to 128", "trusted network", "Identify is set"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestNewByAddress(t *testing.T) {
	d, err := httpdoor.NewByAddress(httpdoor.Addresses{Bound: signpost.MustParseBound("2/366d")}, httpdoor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := d.Wrap(http.HandlerFunc(hello))
	codes := ""
	for _, peer := range []string{"203.0.113.7:1", "203.0.113.7:2", "203.0.113.7:3", "203.0.113.8:1"} {
		r := get()
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-For", peer)
		w := record(h, r)
		codes += fmt.Sprint(w.Code, " ")
		if w.Code == 429 && !strings.Contains(w.Body.String(), `"detail":"This address allows 2 requests per 31622400 seconds.`) {
			t.Errorf("body %s", w.Body)
		}
	}
	if codes != "200 200 429 200 " {
		t.Errorf("got %s", codes)
	}
}

// Whatever a client writes into the field: behind one honest proxy, which appends the client's
// address, it stays who it is.
func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"", "1.1.1.1", "[::1]:80, ::ffff:1.2.3.4", ",,", "unknown", "10.0.0.1"} {
		f.Add(s)
	}
	by := identifyBy(f, httpdoor.Addresses{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	want := by("203.0.113.7:1")
	f.Fuzz(func(t *testing.T, claimed string) {
		for _, got := range []httpdoor.Caller{
			by("203.0.113.7:1", claimed), by("10.0.0.1:1", claimed+", 203.0.113.7"), by("10.0.0.1:1", claimed, "203.0.113.7"), by("10.0.0.1:1", claimed+", 203.0.113.7, 10.0.0.2"),
		} {
			if got.Key != want.Key {
				t.Errorf("%q made it %s", claimed, got.Name)
			}
		}
		by("10.0.0.1:1", claimed)
		by(claimed, claimed)
	})
}
