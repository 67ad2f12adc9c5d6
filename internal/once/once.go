// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package once keeps a request that was counted once from being done twice.
package once

import (
	"net/http"
	"strings"
)

// Send changes the fields of a request, so that http.Transport never sends again what a server may have seen and may act on. Of methods that can
// change something, it does so with those that carry a key of idempotency, when a connection that was kept ends before the answer. It knows such a
// key by the name as Go spells it, and servers know it in any letters. What was not written at all it still sends on another connection.
func Send(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}
