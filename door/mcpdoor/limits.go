// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"fmt"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// LimitsToolName is the name of the tool that tells a model its bounds and what remains of them.
const LimitsToolName = "limits"

// limitsDescription is that of the tool.
const limitsDescription = "Tells the rate limits of this caller, what remains of them, and when they start again. It is free: to call it takes nothing from them."

// Instructions returns a sentence or two for the instructions of a server whose callers are held to b, so that a model knows its bounds before it meets
// them. With limitsTool they name the tool of LimitsToolName too.
func Instructions(b signpost.Bound, limitsTool bool) string {
	var bounds []string
	for _, w := range b.Windows() {
		bounds = append(bounds, allowsPer(w))
	}
	text := "Rate limit for each caller: " + strings.Join(bounds, " and ") + "; " + atOnce(b.Concurrent()) + ". A refused call was not executed, and says how long to wait."
	if limitsTool {
		text += " The tool " + LimitsToolName + " is free, and tells what remains."
	}
	return text
}

// tellLimits says for a model what a peek has found, and gives it as data: the value of MetaKey.
func tellLimits(d *signpost.Decision) (text string, data *counters) {
	told := *d
	told.Admitted = d.Admitted && d.Degraded // no slot was taken: there is none to take off
	var b strings.Builder
	known := !d.Degraded || !d.Admitted
	for _, w := range d.Windows() {
		b.WriteString(allowsPer(w.Window))
		if known {
			fmt.Fprintf(&b, ": %d left, starts again in %s", w.Remaining(), seconds(signpost.Seconds(render.Reset(d, w).Sub(d.At))))
		}
		b.WriteString(".\n")
	}
	b.WriteString(atOnce(int(d.Concurrent)))
	if known {
		fmt.Fprintf(&b, ": %d free now", render.SlotsLeft(&told))
	}
	b.WriteString(".")
	if !known {
		b.WriteString("\nWhat is left is not known for the moment; the limits hold.")
	}
	return b.String(), countersOf(&told, d.Degraded)
}

func allowsPer(w signpost.Window) string {
	return render.Counter{Name: w.Name(), Limit: int64(w.Limit)}.Allows()
}

func atOnce(n int) string {
	return render.Counter{Name: render.Concurrency, Limit: int64(n)}.Allows()
}
