// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/link"
)

// linkHeader tells the upstream the public ID of the link that a request came with.
const linkHeader = "X-Signpost-Link"

// forward says to the upstream who asks, in fields that no client can have written.
func forward(c *Config, p *httputil.ProxyRequest) {
	in, out := p.In.Header, p.Out.Header
	peer, _ := netip.ParseAddrPort(p.In.RemoteAddr)
	trusted := slices.ContainsFunc(c.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap().WithZone("")) })
	if trusted {
		out["X-Forwarded-For"] = in["X-Forwarded-For"] // SetXForwarded adds the peer
	}
	deleteOurs(out)
	deleteForwarding(out, trusted)
	p.SetXForwarded()
	if trusted {
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
			if in[name] != nil {
				out[name] = in[name]
			}
		}
	}
	caller, ok := httpdoor.CallerFromContext(p.In.Context())
	if !ok {
		caller, ok = mcpdoor.CallerFromContext(p.In.Context())
	}
	if ok && caller.Name != "" {
		out.Set(linkHeader, caller.Name)
	}
	if !c.KeepAuthorization {
		out.Del("Authorization")
	}
	if slices.ContainsFunc(out["Referer"], link.WithinURL) {
		out.Del("Referer")
	}
	keepWebSocket(out)
	p.Out.Trailer = nil // the proxy passes no values of it, so it promises none
}

// keepWebSocket deletes the offer of any protocol but WebSocket. Over another, such as h2c, one request
// that was counted would carry any number that are not, with fields as the client likes.
func keepWebSocket(out http.Header) {
	if !strings.EqualFold(out.Get("Upgrade"), "websocket") {
		out.Del("Connection")
		out.Del("Upgrade")
	}
	out.Del("Http2-Settings")
}

// spelling returns a name as CGI, WSGI and their like read it, for which X_A and X-A are one name: in lower
// case, with a dash for all but letters and digits.
func spelling(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return '-'
	}, name)
}

// deleteOurs deletes the fields that only Signpost may write, in any spelling.
func deleteOurs(h http.Header) {
	for name := range h {
		if strings.HasPrefix(spelling(name), "x-signpost-") {
			delete(h, name)
		}
	}
}

// forwarding are the fields, besides X-Forwarded-, by which proxies tell a service who asks it for what.
var forwarding = []string{
	"forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip",
	"x-original-url", "x-original-uri", "x-original-host", "x-rewrite-url", "x-host", "x-url-scheme", "front-end-https",
}

// deleteForwarding deletes the fields that only a proxy may write. Those of a trusted one stay, but not what a
// client can have slipped past it in another spelling.
func deleteForwarding(h http.Header, trusted bool) {
	for name := range h {
		spelt := spelling(name)
		if !strings.HasPrefix(spelt, "x-forwarded-") && !slices.Contains(forwarding, spelt) {
			continue
		}
		if !trusted || spelt != strings.ToLower(name) {
			delete(h, name)
		}
	}
}

// relayed is where the proxy writes what the upstream answered, informational responses too.
type relayed struct {
	http.ResponseWriter
	linkInURL bool
}

func (a *relayed) WriteHeader(status int) {
	h := a.Header()
	deleteOurs(h)
	if a.linkInURL {
		h.Set("Referrer-Policy", "no-referrer") // again: the proxy empties the header after an informational response
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *relayed) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// cleanTrailer deletes from the trailer of a response what is the door's to say, announced or not.
func cleanTrailer(resp *http.Response) {
	clean := func() {
		deleteOurs(resp.Trailer)
		render.Fields{}.Clear(resp.Trailer)
	}
	clean()
	if resp.StatusCode != http.StatusSwitchingProtocols { // the body of which is a connection
		resp.Body = &trailed{resp.Body, clean}
	}
}

// trailed is a body whose trailer is known once it is closed.
type trailed struct {
	io.ReadCloser
	clean func()
}

func (t *trailed) Close() error {
	err := t.ReadCloser.Close()
	t.clean()
	return err
}
