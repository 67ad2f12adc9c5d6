// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// LeaseLife is how long a lease lasts unless it is renewed. A caller that died frees its
// slots within this time.
const LeaseLife = 30 * time.Second

// Request asks whether one piece of work may pass.
type Request struct {
	Key   Key
	Bound Bound
	// Cost is what the work takes from each window. 0 means 1.
	Cost uint32
	// Expensive work needs a lease of the bound's concurrency as well.
	Expensive bool
	// LeaseID names the lease that an expensive take is granted. The caller's side picks it,
	// so that a lease whose answer was lost can still be given back. [Limiter] fills it in.
	LeaseID LeaseID
	// At is the instant of the take. The zero Instant means the store's own clock, which
	// is right everywhere but in replays and tests.
	At Instant
}

func (q *Request) cost() uint32 { return max(q.Cost, 1) }

// LeaseID is the 128-bit name of a lease. Who does not know it cannot give the lease back.
type LeaseID [16]byte

// NewLeaseID returns an unguessable id.
func NewLeaseID() LeaseID {
	var id LeaseID
	rand.Read(id[:]) // never fails, as crypto/rand documents
	return id
}

// Lease is one slot of a key's concurrency, held until it is released or expires. The zero
// Lease is no lease, and releasing it does nothing.
type Lease struct {
	Key     Key
	ID      LeaseID
	Expires Instant
	// Fallback marks a lease that a degraded store's fallback granted, so that
	// it is given back there. Only wrappers with more than one store behind them set it.
	Fallback bool
}

// IsZero reports whether l is no lease.
func (l Lease) IsZero() bool { return l.ID == LeaseID{} }

// leaseTextLen is the length of digest, tag, id and flag in bytes. The name of a home follows, if the key has one.
const leaseTextLen = 32 + 8 + 16 + 1

// MarshalText returns an opaque text from which [Lease.UnmarshalText] restores the lease
// for a release or a renewal. It does not carry Expires. The zero Lease is an empty text.
func (l Lease) MarshalText() ([]byte, error) {
	if l.IsZero() {
		return nil, nil
	}
	b := make([]byte, 0, leaseTextLen+MaxHome)
	b = append(b, l.Key.digest[:]...)
	b = append(b, l.Key.tag[:]...)
	b = append(b, l.ID[:]...)
	if l.Fallback {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = append(b, l.Key.home.String()...)
	return hex.AppendEncode(nil, b), nil
}

// UnmarshalText reads what [Lease.MarshalText] wrote.
func (l *Lease) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Lease{}
		return nil
	}
	if least, most := hex.EncodedLen(leaseTextLen), hex.EncodedLen(leaseTextLen+MaxHome); len(text) < least || len(text) > most {
		return fmt.Errorf("lease: %d characters, want %d to %d", len(text), least, most)
	}
	b, err := hex.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("lease: not hexadecimal")
	}
	if b[56] > 1 {
		return fmt.Errorf("lease: unknown origin")
	}
	home, err := ParseHome(string(b[leaseTextLen:]))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	*l = Lease{Key: Key{home: home}, Fallback: b[56] == 1}
	copy(l.Key.digest[:], b[:32])
	copy(l.Key.tag[:], b[32:40])
	copy(l.ID[:], b[40:56])
	return nil
}

// Decision is the answer to one request, and everything that headers, bodies, logs and
// metrics say about it. It is a value; the zero Decision refuses.
type Decision struct {
	// At is the instant that the decision was made for.
	At Instant
	// Admitted says that the work may go on. Unless the request was a peek, it has been charged.
	Admitted bool
	// Never says that no wait helps: the cost is above a limit, or the limit is 0.
	Never bool
	// Degraded says that the store did not answer, or could not make the count durable,
	// and that the local rules decided.
	Degraded bool
	// ClockFault says that a stored window lay further ahead of At than its own length, and was
	// brought back.
	ClockFault bool
	// Expensive repeats the request.
	Expensive bool
	// Concurrent is the concurrency allowed; InUse is how many leases were alive when it was
	// looked at, before the one that this decision may grant. InUse is 0 for cheap requests.
	Concurrent int32
	InUse      int32
	// ConcurrencyRefused says that the concurrency is among the bounds that refused.
	ConcurrencyRefused bool

	n       uint8
	windows [MaxWindows]WindowState
	wait    Instant // milliseconds; 0 when admitted or never

	// Lease is what an admitted expensive take was granted; otherwise the zero Lease.
	Lease Lease
}

// Denied returns the refusal of a request that no count was looked at for, because the store did not answer and
// a wrapper around it is told to deny then. It is Degraded, names no window, and asks for a wait.
func Denied(q *Request, at Instant, wait time.Duration) Decision {
	return Decision{
		At:         at,
		Degraded:   true,
		Expensive:  q.Expensive,
		Concurrent: int32(q.Bound.concurrent),
		wait:       Instant(wait.Milliseconds()),
	}
}

// WindowState is one window of a decision. On an admission Used includes the cost.
type WindowState struct {
	Window
	Start   Instant // of the interval that the take was judged in
	Used    uint32
	Refused bool // this window is among the bounds that refused
}

// Remaining returns what is left of the limit, never below 0.
func (w WindowState) Remaining() uint32 {
	if w.Used >= w.Limit {
		return 0
	}
	return w.Limit - w.Used
}

// Reset returns the end of the interval, when the window starts again from 0.
func (w WindowState) Reset() Instant { return w.Start.Add(w.Len) }

// Windows returns each window of the bound, shortest first. The slice shares the
// decision's memory.
func (d *Decision) Windows() []WindowState { return d.windows[:d.n] }

// RetryAfter returns how long to wait until the bounds that refused can admit: the longest of their
// waits. It is 0 for an admission and for what can never pass. A wait for
// concurrency is an upper bound, because a lease can be released before it expires.
func (d *Decision) RetryAfter() time.Duration { return time.Duration(d.wait) * time.Millisecond }

// RetryAfterSeconds returns RetryAfter in whole seconds, rounded up, at least 1 for a
// refusal that a wait can help. It is 0 for an admission and for what can never pass.
func (d *Decision) RetryAfterSeconds() int64 { return Seconds(d.RetryAfter()) }

// Seconds returns d in whole seconds, rounded up: what goes on a wire.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
