// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"

	"github.com/signposthq/signpost/door/httpdoor"
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
	p.SetXForwarded()
	if trusted {
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
			if in[name] != nil {
				out[name] = in[name]
			}
		}
	}
	deleteOurs(out)
	if caller, ok := httpdoor.CallerFromContext(p.In.Context()); ok {
		out.Set(linkHeader, caller.Name)
	}
	if !c.KeepAuthorization {
		out.Del("Authorization")
	}
	if slices.ContainsFunc(out["Referer"], link.WithinURL) {
		out.Del("Referer")
	}
	keepWebSocket(out)
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

// deleteOurs deletes the fields that only Signpost may write.
func deleteOurs(h http.Header) {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(name), "x-signpost-") {
			delete(h, name)
		}
	}
}
