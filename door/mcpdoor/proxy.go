// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/internal/once"
)

// ProxyOptions say how a Proxy works. Identify and Upstream are required; the zero value of everything else is right for most.
type ProxyOptions struct {
	// Identify tells who sent a request, as for httpdoor.Options.
	Identify func(*http.Request) (httpdoor.Caller, error)

	// Upstream is the endpoint of the server: a scheme, a host and at most a path.
	Upstream *url.URL

	// Path is where the proxy serves it, and nothing else; empty means at the path of Upstream.
	Path string

	// Transport reaches the server; nil means http.DefaultTransport. One that sends a request again by itself has calls done twice that were counted once.
	Transport http.RoundTripper

	// Rewrite may change what is forwarded, except for its body; nil means that X-Forwarded-For, -Host and -Proto are set. By then the fields that begin with
	// X-Signpost- are gone, and Authorization unless KeepAuthorization.
	Rewrite func(*httputil.ProxyRequest)

	// KeepAuthorization passes the credential on.
	KeepAuthorization bool

	// MaxBody is the largest body of a POST in bytes; 0 means httpdoor.DefaultMaxBody. The proxy holds that much in memory for each.
	MaxBody int64

	// BeforeHandler waits for a durable count before anything is forwarded, instead of before the first byte of the answer.
	BeforeHandler bool

	// CountPreflight treats a CORS preflight as any other request, as in httpdoor.Options.
	CountPreflight bool

	// Stopping ends when the program begins to stop. The streams on which the server speaks unasked end then, once nothing else is under way; otherwise
	// they end with their clients alone, and nil means so.
	Stopping context.Context

	// Replaces is a proxy to the same server that this one takes the place of, as with another configuration. What is under way in the one is known to the
	// other: a call can be cancelled, streams end after the last call, and what the guard has counted counts on.
	Replaces *Proxy

	// Fields say which counters go with the answer to a single call; those of a batch have none.
	Fields render.Fields

	// These are as in Options.
	Charges Charges
	Guard   signpost.Bound
	Realm   string
	Terms   render.Terms
	Observe func(Event)
}

// Proxy stands in front of a server of MCP over streamable HTTP, in any language, and holds its callers to their bounds. It reads each
// message that is sent, answers the refused ones in place of the server, and forwards the others with the very bytes that came.
// What comes back passes as it comes, event streams too; it holds no counters in its _meta, as Door's results do. It is safe for concurrent use.
//
// A call keeps its lease until its answer goes past, or the response that should carry it has ended. If the caller goes away before,
// the lease ends with the call where revision 2026-07-28 or a later one makes that a cancellation, and else when the server has done the work, after ten
// minutes at most. Of an event stream that the client can resume elsewhere the proxy does not see the end, so the lease is left to end by itself.
// Neither does it of a call that notifications/cancelled has cancelled, or the end of its session, as servers answer it no more: its lease ends by itself,
// or before with the response.
//
// A body that two readers could understand differently, that its header fields contradict, or that holds more than 100 messages, is turned away with an
// error, uncounted. A call that did not reach the server, or may not have, counts all the same.
type Proxy struct {
	door      *Door
	o         ProxyOptions
	reverse   *httputil.ReverseProxy
	inFlight  *inFlight
	listening *listening

	bodyTime, leaseLife time.Duration // constants, but for tests
}

// Malformed is the outcome of a request to a Proxy whose body is not what it should be, or is contradicted by a header field.
const Malformed httpdoor.Outcome = "malformed"

// NewProxy returns a proxy that takes from a limiter. The error lists every fault.
func NewProxy(l *signpost.Limiter, o ProxyOptions) (*Proxy, error) {
	var faults []error
	if o.Identify == nil {
		faults = append(faults, errors.New("mcpdoor: no Identify; use httpdoor.Links"))
	}
	if o.Upstream == nil {
		faults = append(faults, errors.New("mcpdoor: no Upstream"))
	} else if u := o.Upstream; u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		faults = append(faults, errors.New("mcpdoor: Upstream is not a URL of a scheme, http or https, a host and at most a path"))
	}
	if o.MaxBody < 0 {
		faults = append(faults, errors.New("mcpdoor: MaxBody is negative; a proxy holds bodies in memory"))
	}
	door, err := build(l, Options{Charges: o.Charges, Guard: o.Guard, Realm: o.Realm, Terms: o.Terms, Observe: o.Observe})
	if faults = append(faults, err); errors.Join(faults...) != nil {
		return nil, errors.Join(faults...)
	}
	if o.MaxBody == 0 {
		o.MaxBody = httpdoor.DefaultMaxBody
	}
	if o.Path == "" {
		o.Path = o.Upstream.Path
	}
	if o.Path == "" {
		o.Path = "/"
	}
	p := &Proxy{door: door, o: o, inFlight: &inFlight{calls: map[session][]*sent{}}, listening: newListening(), bodyTime: bodyTime, leaseLife: signpost.LeaseLife}
	if old := o.Replaces; old != nil {
		p.inFlight, p.listening, door.guard.limiter = old.inFlight, old.listening, old.door.guard.limiter
		p.o.Replaces = nil // or all that ever were would stay in memory
	}
	p.reverse = &httputil.ReverseProxy{
		Transport:      o.Transport,
		FlushInterval:  -1,
		BufferPool:     &buffers{},
		Rewrite:        p.rewrite,
		ModifyResponse: func(resp *http.Response) error { return postOf(resp.Request.Context()).answered(resp) },
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { postOf(r.Context()).failed(w, err) },
		ErrorLog:       log.New(io.Discard, "", 0), // a line for each response that breaks off
	}
	return p, nil
}

// overrides are the fields by which some servers take a request for one of another method.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	path, raw := p.o.Upstream.Path, p.o.Upstream.RawPath
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.Path, r.Out.URL.RawPath = p.o.Upstream.Scheme, p.o.Upstream.Host, path, raw
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.Out.Host = ""
	h := r.Out.Header
	deleteOurs(h)
	if !p.o.KeepAuthorization {
		h.Del("Authorization")
	}
	for _, name := range append([]string{"Expect", "Upgrade", "Connection"}, overrides...) {
		h.Del(name)
	}
	x := postOf(r.In.Context())
	if len(x.answers) > 0 { // the response is put together
		h.Set("Accept-Encoding", "identity")
	}
	if p.o.Rewrite == nil {
		r.SetXForwarded()
	} else {
		p.o.Rewrite(r)
	}
	once.Send(h)
}

// deleteOurs deletes the fields that only Signpost may write, also as servers read them that take - and _ for the same.
func deleteOurs(h http.Header) {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "x-signpost-") {
			delete(h, name)
		}
	}
}

// endToEnd returns the request without the fields that its field Connection names. They are not forwarded, so nothing may be decided by them.
func endToEnd(r *http.Request) *http.Request {
	whole := r
	for _, value := range r.Header["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = textproto.TrimString(name); name == "" || r.Header[http.CanonicalHeaderKey(name)] == nil {
				continue
			}
			if r == whole {
				r = r.WithContext(r.Context())
				r.Header = r.Header.Clone()
			}
			r.Header.Del(name)
		}
	}
	return r
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &post{proxy: p, request: r}
	if r.URL.Path != p.o.Path {
		x.say(w, http.StatusNotFound, &fault{code: codeInvalidRequest, detail: "There is nothing at this path. The server of MCP is at " + p.o.Path + "."})
		return
	}
	if !p.o.CountPreflight && httpdoor.IsPreflight(r) {
		x.forward(w, nil)
		return
	}
	caller, err := p.o.Identify(r)
	if err != nil {
		p.door.turnAway(w, r, err)
		return
	}
	x.caller, x.request = caller, endToEnd(r)
	defer x.end()
	switch r.Method {
	case http.MethodPost:
		x.post(w)
	case http.MethodGet, http.MethodHead:
		if x.free(w) {
			x.forward(w, nil)
		}
	case http.MethodDelete: // gives up a session, and passes whatever is full
		x.forward(w, nil)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		x.say(w, http.StatusMethodNotAllowed, &fault{code: codeInvalidRequest, detail: "MCP has no messages that are sent with this method of HTTP."})
	}
}

// free guards a request without a message. It reports whether it passes.
func (x *post) free(w http.ResponseWriter) bool {
	c := x.call(message{})
	x.calls = append(x.calls, c)
	r := c.guarded()
	if r != nil {
		x.sendError(w, http.StatusTooManyRequests, nil, r.rpcError())
	}
	return r == nil
}

// contradicted returns what is wrong with the header fields that repeat what a body says. Others may have decided by them.
func contradicted(h http.Header, messages []message, batch bool) *fault {
	m := messages[0]
	if batch {
		m = message{}
	}
	mismatch := func(name string) *fault {
		return &fault{code: codeHeaderMismatch, id: m.id, detail: "The header field " + name + " does not say what the body does."}
	}
	methods, names := h.Values("Mcp-Method"), h.Values("Mcp-Name")
	if batch {
		if len(methods)+len(names) > 0 {
			return mismatch("Mcp-Method or Mcp-Name, which a batch has not,")
		}
		return nil
	}
	if len(methods) > 1 || len(methods) == 1 && methods[0] != m.method {
		return mismatch("Mcp-Method")
	}
	var said string
	switch m.method {
	case methodCallTool, methodGetPrompt:
		said = m.name
	case methodReadResource:
		said = m.uri
	default:
		return nil
	}
	if len(names) > 1 || len(names) == 1 && !says(names[0], said) {
		return mismatch("Mcp-Name")
	}
	return nil
}

// says reports whether a field says a text: as it is, or in the form for those that no field can hold. What has that form is never what it says.
func says(field, text string) bool {
	inner, begins := strings.CutPrefix(field, "=?base64?")
	inner, ends := strings.CutSuffix(inner, "?=")
	if !begins || !ends {
		return field == text
	}
	plain, err := base64.StdEncoding.DecodeString(inner)
	return err == nil && string(plain) == text
}

type postKey struct{}

func postOf(ctx context.Context) *post {
	x, _ := ctx.Value(postKey{}).(*post)
	return x
}
