// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/signposthq/signpost/door/render"
)

func TestMayBeShared(t *testing.T) {
	type fields map[string]string
	for _, c := range []struct {
		status int
		fields fields
		want   bool
	}{
		{200, fields{}, false},
		{200, fields{"ETag": `"1"`, "Last-Modified": "Thu, 15 Jan 2026 09:00:00 GMT"}, false},
		{500, fields{}, false},

		// Statuses whose fields end up in what is stored, or that a client may not follow.
		{304, fields{"Cache-Control": "no-store"}, true},
		{301, fields{}, true},
		{302, fields{}, true},
		{308, fields{"Cache-Control": "private"}, true},

		{200, fields{"Cache-Control": "public"}, true},
		{200, fields{"Cache-Control": "PUBLIC , max-age=0"}, true},
		{404, fields{"Cache-Control": "max-age=60"}, true},
		{200, fields{"Cache-Control": "s-maxage=1"}, true},
		{200, fields{"Cache-Control": `max-age="60"`}, true},
		{200, fields{"Cache-Control": "max-age=sixty"}, true},
		{200, fields{"Cache-Control": "max-age"}, true},
		{200, fields{"Cache-Control": "immutable"}, true},
		{200, fields{"Cache-Control": "max-age=0, max-age=5"}, true},
		{200, fields{"Cache-Control": "max-age=0"}, false},
		{200, fields{"Cache-Control": "s-maxage=000"}, false},
		{200, fields{"Cache-Control": "no-cache"}, false},

		{200, fields{"Cache-Control": "public, no-store"}, false},
		{200, fields{"Cache-Control": "max-age=60, private"}, false},
		{200, fields{"Cache-Control": `max-age=60, private="set-cookie"`}, true},
		{200, fields{"Cache-Control": `ext="a, no-store", max-age=60`}, true},
		{200, fields{"Cache-Control": `ext="\", no-store", max-age=60`}, true},
		{200, fields{"Cache-Control": `ext="\\", no-store, max-age=60`}, false},
		{200, fields{"Cache-Control": "no-storeish, max-age=60"}, true},

		// With a validator a stored copy is used again once the server has said 304.
		{200, fields{"Cache-Control": "no-cache", "ETag": `"1"`}, true},
		{200, fields{"Cache-Control": "max-age=0, must-revalidate", "Last-Modified": "Thu, 15 Jan 2026 09:00:00 GMT"}, true},
		{200, fields{"Cache-Control": "no-cache, private", "ETag": `"1"`}, false},

		// Some cache reads these instead of Cache-Control.
		{200, fields{"Cache-Control": "no-store", "CDN-Cache-Control": "max-age=60"}, true},
		{200, fields{"Cache-Control": "private", "Cloudflare-CDN-Cache-Control": "public"}, true},
		{200, fields{"Cache-Control": "private", "Vercel-CDN-Cache-Control": "no-cache"}, true},
		{200, fields{"Surrogate-Control": "max-age=60"}, true},
		{200, fields{"Surrogate-Control": "no-store"}, false},
		{200, fields{"CDN-Cache-Control": "no-store", "Cache-Control": "public"}, true},
		{200, fields{"CDN-Cache-Control": "private"}, false},
		{200, fields{"Edge-Control": "!no-store, max-age=60"}, true},
		{200, fields{"X-Accel-Expires": "60", "Cache-Control": "private"}, true},
		{200, fields{"X-Accel-Expires": "@1800000000"}, true},
		{200, fields{"X-Accel-Expires": "0"}, false},

		{200, fields{"Expires": "Thu, 15 Jan 2026 10:00:01 GMT"}, true},
		{200, fields{"Expires": "Thu, 15 Jan 2026 10:00:00 GMT"}, false}, // the instant of the decision
		{200, fields{"Expires": "0"}, false},
		{200, fields{"Expires": "Thu, 15 Jan 2026 10:00:01 GMT", "Cache-Control": "max-age=0"}, false},
		{200, fields{"Expires": "Thu, 15 Jan 2026 10:00:01 GMT", "Cache-Control": "no-store"}, false},
		{200, fields{"Expires": "Thu, 15 Jan 2026 10:00:01 GMT", "Cache-Control": "no-transform"}, true},
	} {
		h := http.Header{}
		for name, value := range c.fields {
			h.Set(name, value)
		}
		if got := render.MayBeShared(h, c.status, t0); got != c.want {
			t.Errorf("%d %v: %v, want %v", c.status, c.fields, got, c.want)
		}
	}
}

func TestMayBeSharedOverLines(t *testing.T) {
	h := http.Header{"Cache-Control": {"max-age=60", "no-store"}}
	if render.MayBeShared(h, 200, t0) {
		t.Error("a no-store on a second line was not seen")
	}
}

func TestNoStore(t *testing.T) {
	h := http.Header{}
	for _, name := range []string{
		"ETag", "Last-Modified", "Expires", "Age", "Surrogate-Control", "Surrogate-Key", "Cloudflare-CDN-Cache-Control", "Vercel-CDN-Cache-Control",
		"X-Accel-Expires", "Edge-Control", "Cache-Tag", "Access-Control-Allow-Origin", "Vary", "Set-Cookie", "X-Request-Id",
	} {
		h.Set(name, "set by an outer layer")
	}
	h["Cache-Control"] = []string{"public", "max-age=300"}
	h["cdn-cache-control"] = []string{"max-age=300"}
	render.NoStore(h)

	want := []string{
		"Access-Control-Allow-Origin", "Age", "Cache-Control", "Cache-Tag", "Cdn-Cache-Control", "Etag", "Last-Modified",
		"Set-Cookie", "Surrogate-Key", "Vary", "X-Request-Id",
	}
	if got := slices.Sorted(maps.Keys(h)); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	for _, name := range []string{"Cache-Control", "CDN-Cache-Control"} {
		if got := h.Values(name); !slices.Equal(got, []string{"no-store"}) {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// Whatever Cache-Control says: a no-store that is a directive of its own forbids, and so the order of
// lines cannot matter to that; and what leaves no doubt that it may be shared is never missed.
func FuzzCacheControl(f *testing.F) {
	for _, s := range []string{"", "public", `private="a,b", max-age=1`, `"`, `a="\`, ",,=,", "max-age=0", "no-cache"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		shared := func(lines ...string) bool {
			return render.MayBeShared(http.Header{"Cache-Control": lines}, 200, t0)
		}
		if shared(a, b) != shared(b, a) {
			t.Errorf("%q and %q: their order matters", a, b)
		}
		if shared(a, "no-store", b) {
			t.Errorf("%q and %q hide a no-store", a, b)
		}
		lower := strings.ToLower(a + b)
		if !strings.Contains(lower, "no-store") && !strings.Contains(lower, "private") && !shared(a, "public", b) {
			t.Errorf("%q and %q hide a public", a, b)
		}
	})
}
