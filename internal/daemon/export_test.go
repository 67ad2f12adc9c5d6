// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"log"
	"log/slog"
	"net/http"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

// NewAPIOver returns the decision API over any store, without a token.
func NewAPIOver(s signpost.Store, links link.Registry) http.Handler {
	running := &settings{config: Default()}
	return newAPI(&api{
		limiter: signpost.New(s, signpost.Options{}),
		links:   links,
		live:    func() *settings { return running },
		took:    func(string, string, signpost.Key, *signpost.Decision, error) {},
	}, Secret{})
}

// ErrorLog returns what an http.Server of the daemon logs to.
func ErrorLog(w io.Writer) *log.Logger {
	return slog.NewLogLogger(newLogger(w, slog.LevelDebug).Handler(), slog.LevelWarn)
}
