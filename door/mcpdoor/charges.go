// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/signposthq/signpost/door/httpdoor"
)

// The methods that this package knows by name.
const (
	methodCallTool     = "tools/call"
	methodReadResource = "resources/read"
	methodGetPrompt    = "prompts/get"
	methodComplete     = "completion/complete"
	methodCancelled    = "notifications/cancelled"
	methodCancelTask   = "tasks/cancel"

	notifications = "notifications/"
)

// AnyTool stands, among the names of tools in Charges, for every tool that is not named there.
const AnyTool = "*"

// Charges say which messages are charged, and what they take. The zero Charges charge every tools/call as cheap work of
// cost 1, and nothing else that MCP defines.
//
// What belongs to the protocol itself is always free, and bounded by the guard against floods alone: the handshake,
// pings, lists, subscriptions, notifications, log levels, the state of tasks, and all responses. A
// method that MCP does not define is charged as a call of a tool that nobody named: a server may do any work there.
type Charges struct {
	// Expensive are the names of the tools whose calls need one of the bound's concurrent slots until their result is
	// sent. With AnyTool among them, so do all tools that Cheap does not name. A tool that can do the work of expensive
	// ones, such as one that runs several calls in one, belongs here too.
	Expensive []string
	// Cheap are the names of tools that need no slot though AnyTool is expensive.
	Cheap []string
	// Costs are what a call of a tool takes from each window, by its name; AnyTool is the cost of tools without one of their
	// own. Without it they cost 1.
	Costs map[string]uint32
	// Methods are the methods besides tools/call that are charged, each as cheap work of cost 1: any of resources/read,
	// prompts/get and completion/complete. Those that are not here are free.
	Methods []string
}

// optional are the methods that are charged if Charges say so.
var optional = []string{methodReadResource, methodGetPrompt, methodComplete}

// protocol are the other methods that are free. The list is closed, so that no server can name its own work into it.
var protocol = map[string]bool{
	"initialize": true, "server/discover": true, "ping": true,
	"tools/list": true, "prompts/list": true, "resources/list": true, "resources/templates/list": true, "roots/list": true,
	methodListen: true, "resources/subscribe": true, "resources/unsubscribe": true,
	"logging/setLevel": true,
	"tasks/list":       true, "tasks/get": true, "tasks/result": true, "tasks/update": true, methodCancelTask: true,
}

// charges is what Charges come to.
type charges struct {
	tools   map[string]httpdoor.Work
	other   httpdoor.Work // of a tool that nobody named, and of a method that MCP does not define
	methods map[string]bool
	free    string // the tool that is free, or empty
}

// compile checks c. The error lists every fault.
func (c Charges) compile() (*charges, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("mcpdoor: "+format, args...)) }
	out := &charges{tools: map[string]httpdoor.Work{}, methods: map[string]bool{}}
	for _, list := range [][]string{c.Expensive, c.Cheap, slices.Sorted(maps.Keys(c.Costs))} {
		for _, name := range list {
			if name == "" {
				fault("a tool has an empty name")
			}
		}
	}
	everyTool := slices.Contains(c.Expensive, AnyTool)
	switch {
	case slices.Contains(c.Cheap, AnyTool):
		fault("%q is among the cheap tools; tools are cheap unless they are named as expensive", AnyTool)
	case len(c.Cheap) > 0 && !everyTool:
		fault("cheap tools are named, but %q is not among the expensive ones; tools are cheap unless they are named as expensive", AnyTool)
	}
	out.other = httpdoor.Work{Expensive: everyTool, Cost: max(c.Costs[AnyTool], 1)}
	for _, name := range slices.Concat(c.Expensive, c.Cheap, slices.Collect(maps.Keys(c.Costs))) {
		work := out.other
		work.Expensive = (everyTool || slices.Contains(c.Expensive, name)) && !slices.Contains(c.Cheap, name)
		if cost, ok := c.Costs[name]; ok {
			work.Cost = cost
		}
		out.tools[name] = work
	}
	delete(out.tools, AnyTool) // a tool of that name is one that nobody named
	for _, name := range slices.Sorted(maps.Keys(c.Costs)) {
		if c.Costs[name] == 0 {
			fault("the cost of tool %q is 0; a call costs at least 1", name)
		}
	}
	for _, name := range c.Cheap {
		if name != AnyTool && slices.Contains(c.Expensive, name) {
			fault("tool %q is both expensive and cheap", name)
		}
	}
	for _, method := range c.Methods {
		if !slices.Contains(optional, method) {
			fault("method %q is none of those that can be charged besides %s: %s", method, methodCallTool, strings.Join(optional, ", "))
		}
		out.methods[method] = true
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return out, nil
}

// of returns what a message takes, and whether it is charged at all. The name is that of the tool for tools/call, and
// does not matter for other methods. A response has no method, and is free. Whether the message has an id does not matter: a call
// that is dressed as a notification is still a call.
func (c *charges) of(method, name string) (work httpdoor.Work, charged bool) {
	switch {
	case method == methodCallTool:
		if c.free != "" && name == c.free {
			return httpdoor.Work{}, false
		}
		if work, ok := c.tools[name]; ok {
			return work, true
		}
		return c.other, true
	case method == "" || protocol[method] || strings.HasPrefix(method, notifications):
		return httpdoor.Work{}, false
	case slices.Contains(optional, method):
		return httpdoor.Work{Cost: 1}, c.methods[method]
	}
	return c.other, true
}

// alwaysPasses reports whether a message is one that gives work up: it passes whatever is full.
func alwaysPasses(method string) bool { return method == methodCancelled || method == methodCancelTask }
