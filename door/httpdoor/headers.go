// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"net/http"

	"github.com/signposthq/signpost/door/render"
)

// mark gives an answer to a counted request the fields that it may carry with this status. Of several doors that
// have counted it, the innermost speaks: it is the first to see the status.
func (p *pass) mark(h http.Header, status int) {
	if !p.spoken {
		p.door.fields.Clear(h)
	}
	if !p.counted {
		return
	}
	shared := render.MayBeShared(h, status, p.decision.At)
	switch {
	case p.degraded && status == http.StatusNotModified:
		// A cache would add the marker to what it has stored, and show it long after.
	case p.degraded:
		render.SetMarker(h)
		if shared { // so that no other answer carries it
			render.NoStore(h)
		}
	}
	if !p.spoken && !shared {
		p.door.fields.Set(h, &p.decision, p.degraded)
	}
	p.speak()
}

// speak tells the doors further out that the fields are set.
func (p *pass) speak() {
	for o := p.outer; o != nil; o = o.outer {
		o.spoken = true
	}
}
