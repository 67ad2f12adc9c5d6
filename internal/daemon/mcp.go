// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/door/render"
)

// toolCost is what a call of a tool takes from each window.
type toolCost struct {
	tool string
	cost uint32
}

// String returns the cost as parseToolCost reads it.
func (t toolCost) String() string { return t.tool + "=" + strconv.FormatUint(uint64(t.cost), 10) }

// parseToolCost reads TOOL=COST. The name of a tool can hold another =.
func parseToolCost(s string) (toolCost, error) {
	at := strings.LastIndexByte(s, '=')
	if at < 1 {
		return toolCost{}, fmt.Errorf("%q is not TOOL=COST, such as search=5", s)
	}
	cost, err := strconv.ParseUint(s[at+1:], 10, 32)
	if err != nil || cost == 0 {
		return toolCost{}, fmt.Errorf("%q: the cost %q is not a whole number of at least 1", s, s[at+1:])
	}
	return toolCost{s[:at], uint32(cost)}, nil
}

// mcpPath returns where the door serves the server of MCP, unescaped, as requests are compared with it.
func (c *Config) mcpPath() string {
	for _, path := range []string{unescape(c.MCPPath), c.MCP.Path} {
		if path != "" {
			return path
		}
	}
	return "/"
}

// doorName is what metrics and logs call the door for links.
func (c *Config) doorName() string {
	if c.MCP != nil {
		return doorMCP
	}
	return doorHTTP
}

// charges returns what the messages of MCP are charged.
func (c *Config) charges() mcpdoor.Charges {
	costs := map[string]uint32{}
	for _, t := range c.MCPCosts {
		costs[t.tool] = t.cost
	}
	return mcpdoor.Charges{Expensive: c.MCPExpensive, Cheap: c.MCPCheap, Costs: costs, Methods: c.MCPCharge}
}

// countedOfMCP says what counts as a request in front of a server of MCP; elsewhere it says nothing.
func (c *Config) countedOfMCP() string {
	if c.MCP == nil {
		return ""
	}
	text := " Of the messages that MCP defines, only these count: " + strings.Join(append([]string{"tools/call"}, c.MCPCharge...), ", ") + "."
	for _, t := range c.MCPCosts {
		tool := "the tool " + t.tool
		if t.tool == mcpdoor.AnyTool {
			tool = "any tool that is not named here"
		}
		text += fmt.Sprintf(" A call of %s counts as %d.", tool, t.cost)
	}
	if len(c.MCPCheap) > 0 {
		text += " Calls of any tool count as expensive requests, but for these: " + strings.Join(c.MCPCheap, ", ") + "."
	}
	return text
}

// mcpFaults finds what does not go with a server of MCP, or only with one.
func (l *loader) mcpFaults(c *Config, where map[string]string) {
	if c.MCP == nil {
		for _, path := range []string{"mcp_path", "mcp_expensive", "mcp_cheap", "mcp_costs", "mcp_charge"} {
			if strings.Join(fieldAt(path).get(c), "") != "" {
				l.fault(said(where, path), "%s: there is no server of MCP; set mcp", path)
			}
		}
		return
	}
	if c.Upstream != nil {
		l.fault(said(where, "mcp", "upstream"), "mcp and upstream are both set; the door stands in front of one of them")
	}
	if c.MCP.Host == c.Door {
		l.fault(said(where, "mcp"), "mcp: %s is the door itself", c.MCP)
	}
	switch path := c.mcpPath(); {
	case path == limitsPath, path == tryPath:
		l.fault(said(where, "mcp_path", "mcp"), "mcp: the door answers %s itself; give the server of MCP another path with mcp_path", path)
	case strings.HasPrefix(path, "/s/"):
		l.fault(said(where, "mcp_path", "mcp"), "mcp: in a path that begins with /s/ stands a link; give the server of MCP another path with mcp_path")
	}
	seen := map[string]bool{}
	for _, t := range c.MCPCosts {
		if seen[t.tool] {
			l.fault(said(where, "mcp_costs"), "mcp_costs: the tool %q has two costs", t.tool)
		}
		seen[t.tool] = true
	}
	if len(c.MCPCheap) > 0 && !slices.Contains(c.MCPExpensive, mcpdoor.AnyTool) {
		l.fault(said(where, "mcp_cheap"), "mcp_cheap: tools are cheap unless they are named as expensive; name exceptions to %q in mcp_expensive", mcpdoor.AnyTool)
	}
	for _, tool := range c.MCPCheap {
		if slices.Contains(c.MCPExpensive, tool) {
			l.fault(said(where, "mcp_cheap"), "mcp_cheap: the tool %q is in mcp_expensive as well", tool)
		}
	}
	if len(c.Expensive) > 0 {
		l.fault(said(where, "expensive"), "expensive: in front of a server of MCP it is tools that are expensive; name them in mcp_expensive")
	}
}

// newMCPProxy returns the door in front of a server of MCP, which takes the place of that for requests.
func newMCPProxy(s *settings, p *parts) (http.Handler, error) {
	c := &s.config
	observe := p.observe(doorMCP)
	proxy, err := mcpdoor.NewProxy(p.limiter, mcpdoor.ProxyOptions{
		Identify:          s.identify,
		Upstream:          c.MCP,
		Path:              c.mcpPath(),
		Transport:         p.reach,
		Rewrite:           func(r *httputil.ProxyRequest) { forward(c, r) },
		KeepAuthorization: c.KeepAuthorization,
		MaxBody:           c.Shape.MaxBody(),
		BeforeHandler:     c.BeforeHandler,
		CountPreflight:    !c.Preflights,
		Stopping:          p.stopping,
		Replaces:          p.mcp,
		Fields:            render.Fields{OmitRateLimit: !c.RateLimit, OmitXRateLimit: !c.XRateLimit},
		Charges:           c.charges(),
		Terms:             terms,
		Observe: func(e mcpdoor.Event) {
			observe(httpdoor.Event{Outcome: e.Outcome, Caller: e.Caller, Decision: e.Decision, Err: e.Err})
		},
	})
	if err != nil {
		return nil, err
	}
	p.mcp = proxy
	return proxy, nil
}

// watched is a transport that tells how its upstream fares.
type watched struct {
	http.RoundTripper
	health *upstreamHealth
}

// RoundTrip implements http.RoundTripper.
func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	switch {
	case err == nil:
		w.health.answered()
	case r.Context().Err() == nil:
		w.health.note(err)
	}
	return resp, err
}
