// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// maxAnswer is far above the largest page of links.
const maxAnswer = 8 << 20

// ErrCleartext is returned by NewClient for an address that the token would travel to unencrypted.
var ErrCleartext = errors.New("the admin token would be sent in clear text")

// errNoAddress does not repeat what was given: it may hold a password.
var errNoAddress = errors.New("address is neither HOST:PORT nor an http or https URL without a path")

// Client talks to the admin API of a running daemon. It ignores the proxy variables of the environment and follows
// no redirect, so that the token goes to the address it was made for and nowhere else. It is safe for concurrent use.
type Client struct {
	base  string // without a slash at the end
	token string
	http  *http.Client
}

// NewClient returns a client of the daemon at an address: HOST:PORT, or an http or https URL without a path. An
// address that a daemon listens on with all its interfaces, such as 0.0.0.0:9090, means this machine. Over plain
// http the token is sent to a loopback address only, unless cleartext says otherwise.
func NewClient(address, token string, cleartext bool) (*Client, error) {
	if !strings.Contains(address, "://") {
		if !strings.Contains(address, ":") { // a port alone would be taken for a host
			return nil, errNoAddress
		}
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errNoAddress
	}
	host := u.Hostname()
	ip, err := netip.ParseAddr(host)
	switch isIP := err == nil; {
	case host == "" || isIP && ip.IsUnspecified():
		host = "127.0.0.1"
		if isIP && ip.Is6() {
			host = "::1"
		}
		u.Host = net.JoinHostPort(host, u.Port())
	case u.Scheme == "http" && !cleartext && host != "localhost" && !(isIP && ip.IsLoopback()):
		return nil, fmt.Errorf("%w to %s", ErrCleartext, u.Host)
	}
	return &Client{
		base:  u.Scheme + "://" + u.Host,
		token: token,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:     (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
				IdleConnTimeout: 10 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       2 * timeout, // the daemon gives up after one
		},
	}, nil
}

// Do sends one request with in, unless it is nil, as JSON, and returns the JSON of the answer. An error that the API
// answers with is a *Problem.
func (c *Client) Do(ctx context.Context, method, path string, in any) (json.RawMessage, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach daemon: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer of daemon at %s: %w", c.base, err)
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("read answer of daemon at %s: more than %d bytes", c.base, maxAnswer)
	}
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode/100 == 2 && mediaType == "application/json":
		return answer, nil
	case mediaType == "application/problem+json":
		var p Problem
		realm := res.Header.Get("WWW-Authenticate") // the other listeners of a daemon have problems, too
		if err := json.Unmarshal(answer, &p); err == nil && p.Code != "no_such_path" && (realm == "" || realm == adminRealm) {
			return nil, &p
		}
	}
	return nil, fmt.Errorf("%s answers %s with %q: not the admin API of a signpost daemon", c.base, res.Status, mediaType)
}
