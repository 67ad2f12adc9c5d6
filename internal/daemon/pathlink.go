// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/link"
)

// urlLink is what a URL said of links. It travels in the context of the request.
type urlLink struct {
	prefix string // "/s/LINK", a credential; or "" if the path did not begin so
	err    error  // why the request proves nobody, as httpdoor has it
}

type urlLinkKey struct{}

func urlLinkOf(ctx context.Context) urlLink {
	found, _ := ctx.Value(urlLinkKey{}).(urlLink)
	return found
}

// withoutURLLink turns a request for /s/LINK/rest into one for /rest that carries the link in its
// Authorization field, so that nothing behind it meets a link in a URL. A link that is not whole, that is
// not the one in the Authorization field, or that stands anywhere else in the URL identifies nobody. It returns
// other requests as they are.
func withoutURLLink(r *http.Request) *http.Request {
	segment, rest, ok := cutLink(r.URL)
	elsewhere := *r.URL
	if ok {
		elsewhere.Path, elsewhere.RawPath = unescape(rest), rest
	}
	var found urlLink
	l, malformed := link.Parse(segment)
	shown, unshown := httpdoor.Bearer(r.Header)
	switch {
	case link.WithinURL(elsewhere.RequestURI()):
		found.err = httpdoor.ErrBadCredential
	case !ok:
		return r
	case unshown != nil && unshown != httpdoor.ErrNoCredential, unshown == nil && malformed == nil && shown.Hash() != l.Hash():
		found.err = httpdoor.ErrBadCredential
	case malformed != nil:
		found.err = httpdoor.ErrUnknownCredential
	default:
		found.prefix = "/s/" + l.Reveal()
	}
	in := r.WithContext(context.WithValue(r.Context(), urlLinkKey{}, found))
	in.URL = &elsewhere
	in.RequestURI = elsewhere.RequestURI()
	if found.err == nil {
		in.Header = r.Header.Clone()
		in.Header["Authorization"] = []string{"Bearer " + l.Reveal()}
	}
	return in
}

// cutLink cuts a path of the form /s/LINK/rest. It goes by the escaped path, because an escaped
// slash is part of its segment; the rest is escaped.
func cutLink(u *url.URL) (segment, rest string, ok bool) {
	if !strings.Contains(u.Path, "/s/") { // most requests
		return "", "", false
	}
	segments := strings.SplitN(strings.TrimLeft(u.EscapedPath(), "/"), "/", 3)
	if len(segments) < 2 || unescape(segments[0]) != "s" || !strings.HasPrefix(unescape(segments[1]), "sp_") {
		return "", "", false
	}
	rest = "/"
	if len(segments) == 3 {
		rest += segments[2]
	}
	return unescape(segments[1]), rest, true
}

// unescape returns the text that a part of an escaped path, which is always valid, stands for.
func unescape(s string) string {
	text, _ := url.PathUnescape(s)
	return text
}
