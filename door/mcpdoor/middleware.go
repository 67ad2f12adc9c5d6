// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/internal/hold"
)

// call is one message on its way through a door. The handler's context points into it, so a call is never used again.
type call struct {
	door     *Door
	ctx      callContext
	method   string
	tool     string
	exchange *exchange // or nil

	outcome  httpdoor.Outcome
	caller   httpdoor.Caller
	decision signpost.Decision // not written after the handler has begun: it may be reading
	counted  bool              // a decision was made
	degraded bool              // the decision's, or because its count could not be made durable
	err      error             // why no answer may leave, or why none could be made

	commit signpost.Commit
	hold   hold.Hold
}

// callContext is the message's context and the way from it to the call.
type callContext struct {
	context.Context
	call *call
}

type callKey struct{}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// FromContext returns the decision that admitted the message whose context ctx is, or comes from; there is none for
// free messages. It says what was known when the handler began: Degraded can still become true of the answer. It must not be changed.
func FromContext(ctx context.Context) (*signpost.Decision, bool) {
	if c, _ := ctx.Value(callKey{}).(*call); c != nil && c.counted {
		return &c.decision, true
	}
	return nil, false
}

// CallerFromContext returns who sent the message whose context ctx is, or comes from.
func CallerFromContext(ctx context.Context) (httpdoor.Caller, bool) {
	if c, _ := ctx.Value(callKey{}).(*call); c != nil {
		return c.caller, true
	}
	return httpdoor.Caller{}, false
}

func (d *Door) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		c := &call{door: d, method: method}
		c.ctx = callContext{ctx, c}
		if d.o.Observe != nil {
			defer c.report()
		}
		if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && p != nil {
			c.tool = p.Name
		}
		if r := c.identify(req.GetExtra()); r != nil {
			return c.answer(r)
		}
		work, charged := d.charges.of(method, c.tool)
		if !charged {
			return c.pass(next, req)
		}
		if r, err := c.take(work); r != nil || err != nil {
			if err != nil {
				return nil, err
			}
			return c.answer(r)
		}
		return c.run(next, req)
	}
}

// identify finds out who sent the message. It returns the answer if nobody is known to have.
func (c *call) identify(extra *mcp.RequestExtra) *refusal {
	if extra == nil {
		extra = &mcp.RequestExtra{}
	}
	if c.exchange = c.door.exchangeOf(c.ctx.Context, extra); c.exchange != nil {
		c.caller = c.exchange.caller
		return nil
	}
	var err error
	if c.caller, err = c.door.o.Identify(c.ctx.Context, extra); err == nil {
		return nil
	}
	if c.outcome, _ = httpdoor.Unidentified(&c.door.o.Terms, err); c.outcome == httpdoor.Unavailable {
		c.err = err
	}
	r := unidentified(&c.door.o.Terms, err)
	return &r
}

// pass lets a free message through, unless its caller floods.
func (c *call) pass(next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	d, ok := c.door.guard.passes(c.caller.Key, c.method)
	if !ok {
		c.outcome = Flooded
		r := flooded(&c.door.o.Terms, &d, c.caller.Kind)
		return c.answer(&r)
	}
	c.outcome = httpdoor.Uncounted
	return next(&c.ctx, c.method, req)
}

// take decides. It returns the answer of the door if the call may not run, or why there is to be none.
func (c *call) take(work httpdoor.Work) (*refusal, error) {
	d := c.door
	q := signpost.Request{Key: c.caller.Key, Bound: c.caller.Bound, Cost: work.Cost, Expensive: work.Expensive}
	if q.Expensive {
		q.LeaseID = signpost.NewLeaseID()
	}
	var err error
	if c.decision, c.commit, err = d.limiter.TakeEarly(c.ctx.Context, q); err != nil {
		// The lease may have been granted though its answer was lost.
		d.limiter.Release(signpost.Lease{Key: q.Key, ID: q.LeaseID})
		if c.gone() {
			return nil, c.abort(err)
		}
		c.outcome, c.err = httpdoor.Unavailable, err
		r := unavailable(&d.o.Terms)
		return &r, nil
	}
	c.counted = true
	c.caller.Seen(c.decision.At)
	if c.decision.Admitted {
		c.degrade(c.decision.Degraded)
		c.outcome = httpdoor.Admitted
		return nil, nil
	}
	if err := c.settle(); err != nil {
		return nil, c.abort(err)
	}
	r := refused(&d.o.Terms, &c.decision, c.degraded, c.caller.Kind)
	c.outcome = httpdoor.Refused
	if len(c.decision.Windows()) == 0 { // denied without a look at any bound
		c.outcome = httpdoor.Unavailable
	}
	return &r, nil
}

// run calls the handler and sees its result and the lease through, however the handler ends.
func (c *call) run(next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	c.hold.Begin(c.door.limiter, c.decision.Lease)
	defer c.hold.End() // the handler may panic, and somebody further out recover
	res, err := next(&c.ctx, c.method, req)
	// The work has ended. To keep the slot while the result is written would refuse a caller that has read it and goes on.
	c.hold.End()
	if failed := c.settle(); failed != nil {
		return nil, c.abort(failed)
	}
	if err != nil {
		return nil, err
	}
	return c.withCounters(res), nil
}

// settle waits until the decision is durable, or known not to be for now. On an error nothing of the answer
// may leave.
func (c *call) settle() error {
	err := c.commit.Wait(c.ctx.Context)
	if errors.Is(err, signpost.ErrNotDurable) {
		c.degrade(true)
		err = nil
	}
	c.degrade(c.decision.Degraded)
	return err
}

// degrade notes that the answer is degraded, and the response that it goes with.
func (c *call) degrade(is bool) {
	if !is || c.degraded {
		return
	}
	c.degraded = true
	if c.exchange != nil {
		c.exchange.degraded.Store(true)
	}
}

// gone reports whether the caller has cancelled.
func (c *call) gone() bool { return errors.Is(c.ctx.Err(), context.Canceled) }

// abort returns the error for a call whose caller does not wait for it any more.
func (c *call) abort(err error) error {
	c.outcome, c.err = httpdoor.Aborted, err
	return fmt.Errorf("call was given up: %w", err)
}

// answer answers in place of the server. A notification gets no answer.
func (c *call) answer(r *refusal) (mcp.Result, error) {
	switch {
	case strings.HasPrefix(c.method, notifications):
		return nil, nil
	case r.isResult(c.method):
		return &refusedCall{&mcp.CallToolResult{
			Meta:              r.meta(),
			Content:           []mcp.Content{&mcp.TextContent{Text: r.text}},
			StructuredContent: &r.problem,
			IsError:           true,
		}}, nil
	}
	return nil, &jsonrpc.Error{Code: r.code(), Message: r.message, Data: r.data()}
}

// refusedCall is a result that was not made by a tool. The SDK sets the resultType of those that were, and of no other.
type refusedCall struct{ *mcp.CallToolResult }

// MarshalJSON adds the resultType, which revisions from 2026-07-28 on ask for, and earlier ones ignore.
func (r *refusedCall) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(r.CallToolResult)
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"resultType":"complete",`), b[1:]...), nil
}

// withCounters returns a result with the counters in its _meta. A tool may return the same result again and again, so it is copied.
func (c *call) withCounters(res mcp.Result) mcp.Result {
	switch r := res.(type) {
	case *mcp.CallToolResult:
		if r != nil {
			out := *r
			out.Meta = c.meta(r.Meta)
			return &out
		}
	case *mcp.ReadResourceResult:
		if r != nil {
			out := *r
			out.Meta = c.meta(r.Meta)
			return &out
		}
	case *mcp.GetPromptResult:
		if r != nil {
			out := *r
			out.Meta = c.meta(r.Meta)
			return &out
		}
	case *mcp.CompleteResult:
		if r != nil {
			out := *r
			out.Meta = c.meta(r.Meta)
			return &out
		}
	}
	return res // of a method that MCP does not define
}

func (c *call) meta(m mcp.Meta) mcp.Meta {
	out := make(mcp.Meta, len(m)+2) // the SDK adds one
	maps.Copy(out, m)
	out[MetaKey] = countersOf(&c.decision, c.degraded)
	return out
}

// report tells Observe. It is deferred first, and so runs last.
func (c *call) report() {
	e := Event{Method: c.method, Tool: c.tool, Outcome: c.outcome, Caller: c.caller, Decision: c.decision, Err: c.err}
	e.Decision.Degraded = c.degraded
	c.door.o.Observe(e)
}
