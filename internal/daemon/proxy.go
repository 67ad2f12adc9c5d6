// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/internal/once"
)

// errUnasked is the answer of an upstream that leaves HTTP when nobody asked it to.
var errUnasked = errors.New("upstream switched protocols without being asked")

// newProxy returns the reverse proxy to an upstream. Requests reach it admitted.
//
// The upstream sees its own host name, X-Forwarded-For, -Host and -Proto, and X-Signpost-Link.
// It sees no link: the Authorization field is the door's, and so is a Referer that names one.
func newProxy(upstream *url.URL, transport http.RoundTripper, health *upstreamHealth, live func() *settings) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(upstream)
			p.Out.URL.RawQuery = p.In.URL.RawQuery // as it came: no rule here reads it
			forward(&live().config, p)
			once.Send(p.Out.Header)
		},
		ModifyResponse: func(resp *http.Response) error {
			health.answered()
			if resp.StatusCode == http.StatusSwitchingProtocols && resp.Request.Header.Get("Upgrade") == "" {
				return errUnasked
			}
			if location := resp.Header.Get("Location"); location != "" {
				resp.Header.Set("Location", relocate(location, urlLinkOf(resp.Request.Context()).prefix, upstream))
			}
			cleanTrailer(resp)
			return nil
		},
		ErrorHandler: health.failed,
		ErrorLog:     log.New(io.Discard, "", 0), // a line for each request that breaks off
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			writeProblem(w, problem(http.StatusNotImplemented, "no_tunnels", "There is no CONNECT here.", whyUpstream))
		case climbs(r.URL.EscapedPath()):
			writeProblem(w, problem(http.StatusBadRequest, "bad_path", "The path leads above its root: it has more .. than segments before them.", whyPath))
		default:
			proxy.ServeHTTP(&relayed{w, urlLinkOf(r.Context()).prefix != ""}, r)
		}
	})
}

// newTransport returns how an upstream is reached that may take so long to begin its answer.
func newTransport(timeout time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  timeout,
		ExpectContinueTimeout:  time.Second,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		DisableCompression:     true, // bodies pass as they are
		ForceAttemptHTTP2:      true,
	}
}

const whyUpstream = "Requests are passed on to another service, and what may change something is passed on once."

const whyPath = "What is beside the service behind this door is not for those who pass it."

// settleDown is how long an upstream that failed counts as failing, at least, so that one that
// fails every other time is not logged every other time.
const settleDown = 10 * time.Second

// upstreamHealth answers for an upstream that does not, and logs when that begins and ends.
type upstreamHealth struct {
	log       *slog.Logger
	telemetry *telemetry
	upstream  string
	downSince atomic.Int64 // Unix nanoseconds; 0: it answers
}

func (h *upstreamHealth) answered() {
	since := h.downSince.Load()
	if since == 0 || time.Now().UnixNano()-since < int64(settleDown) || !h.downSince.CompareAndSwap(since, 0) {
		return
	}
	h.log.Info("upstream answers again", "upstream", h.upstream)
}

// failed implements the ErrorHandler of the proxy.
func (h *upstreamHealth) failed(w http.ResponseWriter, r *http.Request, err error) {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		writeProblem(w, terms.TooLarge(tooLarge.Limit))
		return
	}
	if r.Context().Err() != nil { // the client has gone, or the daemon is cutting it off
		writeProblem(w, problem(http.StatusBadGateway, "request_ended", "The request ended before the service answered.", whyUpstream))
		return
	}
	if errors.Is(err, httpdoor.ErrBody) { // no fault of the upstream's
		writeProblem(w, problem(http.StatusBadRequest, "malformed_body",
			"The body of the request is broken: it ends too early, or it is not in the encoding that Content-Encoding names.", whyUpstream))
		return
	}
	// Also where it cannot be reached: what changes nothing is sent again, and the first time may have reached it.
	p := problem(http.StatusBadGateway, "upstream_error", "The service behind this door does not answer. The request may have reached it.",
		whyUpstream)
	if h.note(err) == "timeout" {
		p.Status, p.Title, p.Error = http.StatusGatewayTimeout, http.StatusText(http.StatusGatewayTimeout), "upstream_timeout"
	}
	writeProblem(w, p)
}

// note counts an error of the upstream and logs the first. It returns its kind.
func (h *upstreamHealth) note(err error) string {
	kind := "other"
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		kind = "timeout"
	}
	h.telemetry.upstreamErrors.WithLabelValues(kind).Inc()
	if h.downSince.CompareAndSwap(0, time.Now().UnixNano()) {
		h.log.Warn("upstream does not answer", "upstream", h.upstream, "err", err.Error())
	}
	return kind
}
