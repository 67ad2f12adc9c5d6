// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"strconv"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// MetaKey is the member of a result's _meta that holds the counters:
//
//	{"policies":[{"name":"minute","q":60,"w":60,"r":12,"t":34},{"name":"concurrency","q":10,"r":9}],"degraded":true}
//
// Each policy is a bound: q is its limit, w the length of a window in seconds, r what remains, and t the seconds until the window starts
// again. The concurrency has no window, and tells what remains only where it was looked at. Of an admission that is degraded, r
// and t are not known, and left out; the member degraded is there if the answer is, and only then.
const MetaKey = "dev.signpost/ratelimit"

// appendCounters appends the value of MetaKey. Where no wait helps, no bound names a t.
func appendCounters(b []byte, d *signpost.Decision, degraded bool) []byte {
	known := !degraded || !d.Admitted
	member := func(name string, n int64) {
		b = append(b, ',', '"')
		b = append(b, name...)
		b = append(b, '"', ':')
		b = strconv.AppendInt(b, n, 10)
	}
	b = append(b, `{"policies":[`...)
	for _, w := range d.Windows() {
		b = append(b, `{"name":"`...)
		b = append(b, w.Name()...) // letters and digits
		b = append(b, '"')
		member("q", int64(w.Limit))
		member("w", signpost.Seconds(w.Len))
		if known {
			member("r", int64(w.Remaining()))
			if !d.Never {
				member("t", signpost.Seconds(render.Reset(d, w).Sub(d.At)))
			}
		}
		b = append(b, '}', ',')
	}
	if len(d.Windows()) > 0 { // the decision looked at bounds
		b = append(b, `{"name":"`+render.Concurrency+`"`...)
		member("q", int64(d.Concurrent))
		if known && d.Expensive {
			member("r", render.SlotsLeft(d))
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	if degraded {
		b = append(b, `,"degraded":true`...)
	}
	return append(b, '}')
}
