// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/link"
)

// Options say how a Door works. Identify is required; the zero value of everything else is
// right for most.
type Options struct {
	// Identify tells who sent a message, from what its own HTTP request proves: the header, or the TokenInfo of package
	// auth of the SDK. Both are empty on transports without HTTP. The context may be that of the session, so no
	// credential should be taken from it. The errors are those of httpdoor.Options. It must be safe for concurrent use.
	Identify func(context.Context, *mcp.RequestExtra) (httpdoor.Caller, error)

	// Charges say which messages are charged, and what they take.
	Charges Charges

	// Guard bounds the free messages of each caller; the zero Bound means DefaultGuard. It is counted in the
	// memory of this process, apart from everything else. A free request that is too many is answered with an error, and a notification dropped;
	// what cancels a call always passes.
	Guard signpost.Bound

	// LimitsTool makes AddTo add the tool that LimitsToolName names, in place of the server's if it has one. It is free.
	LimitsTool bool

	// Realm is the realm of WWW-Authenticate in a 401; empty means "mcp".
	Realm string

	// Terms are what refusals say besides the facts.
	Terms render.Terms

	// Observe is told of every message once, after it has been answered: for metrics and logs. A request that Wrap turned away
	// has no method. It must be safe for concurrent use.
	Observe func(Event)
}

// Event is what Observe is told.
type Event struct {
	Method   string
	Tool     string // the name in a tools/call, as the caller gave it: it may be anything, and is no label for a metric
	Outcome  httpdoor.Outcome
	Caller   httpdoor.Caller   // the zero Caller if none was identified
	Decision signpost.Decision // the zero Decision if none was made; Degraded if the answer was
	Err      error             // why, for Aborted, and for Unavailable without a Decision
}

// Flooded is the outcome of a free message that the guard has refused. The others are those of package httpdoor: a free message that
// passed is Uncounted.
const Flooded httpdoor.Outcome = "flooded"

// Door holds the callers of servers to their bounds. Make one with New. It is safe for concurrent use.
type Door struct {
	limiter *signpost.Limiter
	o       Options
	charges *charges
	guard   *guard

	exchanges sync.Map // of the HTTP requests under way, by the header that the SDK hands on: see exchangeOf
}

// New returns a door that takes from a limiter. The error lists every fault.
func New(l *signpost.Limiter, o Options) (*Door, error) {
	if o.Identify == nil {
		_, err := build(l, o)
		return nil, errors.Join(errors.New("mcpdoor: no Identify; use Links, or Fixed for transports without HTTP"), err)
	}
	return build(l, o)
}

// build returns a door, whose Identify nobody looks at.
func build(l *signpost.Limiter, o Options) (*Door, error) {
	var faults []error
	if l == nil {
		faults = append(faults, errors.New("mcpdoor: no limiter"))
	}
	if o.Realm == "" {
		o.Realm = "mcp"
	}
	if strings.ContainsFunc(o.Realm, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		faults = append(faults, fmt.Errorf("mcpdoor: realm %q has a character that is not printable ASCII, or a quote", o.Realm))
	}
	if len(o.Terms.LimitsURL) > render.MaxURL || len(o.Terms.Docs) > render.MaxURL {
		faults = append(faults, fmt.Errorf("mcpdoor: a URL of Terms is longer than %d bytes", render.MaxURL))
	}
	charges, err := o.Charges.compile()
	if err != nil {
		faults = append(faults, err)
	}
	if err == nil && o.LimitsTool {
		if _, charged := charges.tools[LimitsToolName]; charged {
			faults = append(faults, fmt.Errorf("mcpdoor: Charges name the tool %q, which is free because of LimitsTool", LimitsToolName))
		}
		charges.free = LimitsToolName
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return &Door{limiter: l, o: o, charges: charges, guard: newGuard(o.Guard)}, nil
}

// AddTo puts the door into a server, before everything that was added to it so far: the server's callers are held to their bounds from
// then on. Middleware that is added later sees messages first, and answers of the door too.
func (d *Door) AddTo(s *mcp.Server) {
	if d.o.LimitsTool {
		d.addLimitsTool(s)
	}
	s.AddReceivingMiddleware(d.middleware)
}

// Links returns an Identify that knows callers by the link in their Authorization header field, as httpdoor.Links does.
func Links(reg link.Registry, owners signpost.Bound) func(context.Context, *mcp.RequestExtra) (httpdoor.Caller, error) {
	identify := httpdoor.Links(reg, owners)
	return func(ctx context.Context, extra *mcp.RequestExtra) (httpdoor.Caller, error) {
		r := &http.Request{Header: extra.Header}
		return identify(r.WithContext(ctx))
	}
}

// Fixed returns an Identify for transports that have one caller, such as stdio.
func Fixed(c httpdoor.Caller) func(context.Context, *mcp.RequestExtra) (httpdoor.Caller, error) {
	return func(context.Context, *mcp.RequestExtra) (httpdoor.Caller, error) { return c, nil }
}
