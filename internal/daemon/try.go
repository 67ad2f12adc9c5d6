// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"net/http"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

// tryPath is where strangers mint try links.
const tryPath = "/try"

// tryLink is the answer of the try door. The link is shown this once.
type tryLink struct {
	Link      string         `json:"link"`
	ID        string         `json:"id"`
	Bound     signpost.Bound `json:"bound"`
	ExpiresAt time.Time      `json:"expiresAt"`
	LimitsURL string         `json:"limitsUrl"`
}

// mintTryLink mints a link for whoever asks. A door around it bounds how often one address may.
func mintTryLink(links link.Registry, c *Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := link.Mint()
		record := link.NewRecord(l, link.Try, "try", time.Now())
		record.Home = c.Home
		switch err := links.Add(r.Context(), record); {
		case errors.Is(err, link.ErrFull):
			p := problem(http.StatusServiceUnavailable, "try_links_exhausted", "As many try links are alive as may be. Retry in 60 seconds.",
				"Try links are for everybody, and are bounded in number.")
			p.RetryAfterSeconds = 60
			writeProblem(w, p)
		case err != nil:
			writeProblem(w, terms.Unavailable())
		default:
			writeJSON(w, http.StatusCreated, tryLink{
				Link: l.Reveal(), ID: record.Hash.ID(), Bound: record.HeldTo(c.Links), ExpiresAt: record.Expires, LimitsURL: limitsPath,
			})
		}
	})
}
