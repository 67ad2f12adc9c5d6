// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/signposthq/signpost"
)

// Kind sorts failures for metrics and alerts.
type Kind string

const (
	// Timeout: no answer in time. Also what a frozen server or a lost packet looks like.
	Timeout Kind = "timeout"
	// Connection: there is no way to the store. The error wraps [signpost.ErrUnreachable], or is one of
	// the standard library's.
	Connection Kind = "connection"
	// Auth: the store refused this process, not the request. The error wraps [signpost.ErrStoreAuth].
	Auth Kind = "auth"
	// Home: this process does not know where the key is counted. The error wraps [signpost.ErrUnknownHome]. That is no outage, as
	// nothing would end it: such a key is decided locally, nothing else is, and there is no probe.
	Home Kind = "home"
	// Spoilt: the store cannot read what it finds for the key. The error wraps [signpost.ErrSpoilt]. That is no outage either.
	Spoilt Kind = "spoilt"
	// Other: the store failed, panicked, cannot write, or answered nonsense.
	Other Kind = "other"
)

func kindOf(err error) Kind {
	var network net.Error
	switch {
	case errors.Is(err, signpost.ErrStoreAuth):
		return Auth
	case errors.Is(err, signpost.ErrUnknownHome):
		return Home
	case errors.Is(err, signpost.ErrSpoilt):
		return Spoilt
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.As(err, &network) && network.Timeout():
		return Timeout
	case network != nil, errors.Is(err, signpost.ErrUnreachable), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EPIPE):
		return Connection
	}
	return Other
}
