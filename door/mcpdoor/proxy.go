// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

// ProxyOptions say how a Proxy works. Identify and Upstream are required; the zero value of everything else is right for most.
type ProxyOptions struct {
	// Identify tells who sent a request, as for httpdoor.Options.
	Identify func(*http.Request) (httpdoor.Caller, error)

	// Upstream is the endpoint of the server. The proxy serves it at the same path, and nothing else.
	Upstream *url.URL

	// Transport reaches the server; nil means http.DefaultTransport.
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
// A call keeps its lease until the response that carries its answer has ended, or its caller has gone. A body that two readers could understand
// differently, or that its header fields contradict, is turned away with an error, uncounted.
type Proxy struct {
	door    *Door
	o       ProxyOptions
	reverse *httputil.ReverseProxy
}

// NewProxy returns a proxy that takes from a limiter. The error lists every fault.
func NewProxy(l *signpost.Limiter, o ProxyOptions) (*Proxy, error) {
	var faults []error
	if o.Identify == nil {
		faults = append(faults, errors.New("mcpdoor: no Identify; use httpdoor.Links"))
	}
	if o.Upstream == nil {
		faults = append(faults, errors.New("mcpdoor: no Upstream"))
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
	p := &Proxy{door: door, o: o}
	p.reverse = &httputil.ReverseProxy{
		Transport:      o.Transport,
		FlushInterval:  -1,
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
}

// deleteOurs deletes the fields that only Signpost may write, also as servers read them that take - and _ for the same.
func deleteOurs(h http.Header) {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "x-signpost-") {
			delete(h, name)
		}
	}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &post{proxy: p, request: r}
	if path := p.o.Upstream.Path; r.URL.Path != path && (path != "" || r.URL.Path != "/") {
		x.say(w, http.StatusNotFound, &fault{code: codeInvalidRequest, detail: "There is nothing at this path. The server of MCP is at another one."})
		return
	}
	if httpdoor.IsPreflight(r) {
		x.forward(w, nil)
		return
	}
	caller, err := p.o.Identify(r)
	if err != nil {
		p.door.turnAway(w, r, err)
		return
	}
	x.caller = caller
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

// read returns the body of a POST, or answers why not.
func (x *post) read(w http.ResponseWriter) ([]byte, bool) {
	r, most := x.request, x.proxy.o.MaxBody
	for _, coding := range strings.Split(strings.Join(r.Header["Content-Encoding"], ","), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			w.Header().Set("Accept-Encoding", "identity")
			x.say(w, http.StatusUnsupportedMediaType, &fault{code: codeInvalidRequest, detail: "The body is encoded. Send messages of MCP as they are."})
			return nil, false
		}
	}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || len(r.Header["Content-Type"]) != 1 || charset != "" && !strings.EqualFold(charset, "utf-8") {
		x.say(w, http.StatusUnsupportedMediaType, &fault{code: codeInvalidRequest, detail: "The Content-Type is not application/json, in UTF-8."})
		return nil, false
	}
	tooLarge := &fault{code: codeInvalidRequest, detail: fmt.Sprintf("The body is larger than %d bytes.", most)}
	if r.ContentLength > most {
		x.say(w, http.StatusRequestEntityTooLarge, tooLarge)
		return nil, false
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case int64(len(body)) > most:
		x.say(w, http.StatusRequestEntityTooLarge, tooLarge)
	case err != nil:
		x.say(w, http.StatusBadRequest, &fault{code: codeParse, detail: "The body ends before its end."})
	default:
		return body, true
	}
	return nil, false
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
	if len(names) > 1 || len(names) == 1 && names[0] != said && !encodes(names[0], said) {
		return mismatch("Mcp-Name")
	}
	return nil
}

// encodes reports whether a field is a text in the form for those that no field can hold.
func encodes(field, text string) bool {
	inner, begins := strings.CutPrefix(field, "=?base64?")
	inner, ends := strings.CutSuffix(inner, "?=")
	plain, err := base64.StdEncoding.DecodeString(inner)
	return begins && ends && err == nil && string(plain) == text
}

type postKey struct{}

func postOf(ctx context.Context) *post {
	x, _ := ctx.Value(postKey{}).(*post)
	return x
}
