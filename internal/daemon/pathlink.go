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

// prefixKey is where the context of a request keeps the part of its path that held the link.
type prefixKey struct{}

// pathPrefix returns "/s/LINK" for a request that came in that form, or "". It is a credential.
func pathPrefix(ctx context.Context) string {
	prefix, _ := ctx.Value(prefixKey{}).(string)
	return prefix
}

// withoutPathLink turns a request for /s/LINK/rest into one for /rest that carries the link in its
// Authorization field, so that nothing behind it meets a link in a path. It returns other requests
// as they are, and ErrBadCredential if both places hold something and it is not the same.
func withoutPathLink(r *http.Request) (*http.Request, error) {
	if !strings.Contains(r.URL.Path, "/s/") { // most requests
		return r, nil
	}
	// By the escaped path: an escaped slash is part of its segment.
	segments := strings.SplitN(strings.TrimLeft(r.URL.EscapedPath(), "/"), "/", 3)
	if len(segments) < 2 || unescape(segments[0]) != "s" || !strings.HasPrefix(unescape(segments[1]), "sp_") {
		return r, nil
	}
	rest := "/"
	if len(segments) == 3 {
		rest += segments[2]
	}
	shown, err := httpdoor.Bearer(r.Header)
	l, malformed := link.Parse(unescape(segments[1]))
	switch {
	case err != nil && err != httpdoor.ErrNoCredential:
		return nil, httpdoor.ErrBadCredential
	case malformed != nil:
		return nil, httpdoor.ErrUnknownCredential
	case err == nil && shown.Hash() != l.Hash():
		return nil, httpdoor.ErrBadCredential
	}
	in := r.WithContext(context.WithValue(r.Context(), prefixKey{}, "/s/"+l.Reveal()))
	in.URL = new(url.URL)
	*in.URL = *r.URL
	in.URL.Path, in.URL.RawPath = unescape(rest), rest
	in.RequestURI = in.URL.RequestURI()
	in.Header = r.Header.Clone()
	in.Header["Authorization"] = []string{"Bearer " + l.Reveal()}
	return in, nil
}

// unescape returns the text that a part of an escaped path, which is always valid, stands for.
func unescape(s string) string {
	text, _ := url.PathUnescape(s)
	return text
}
