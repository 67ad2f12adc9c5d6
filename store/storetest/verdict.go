// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/signposthq/signpost"
)

// verdict is everything that a decision says, but whether it is degraded: so that the decisions of different stores, of the
// model and of the vectors can be compared. In JSON a field that is 0 or false may be left out.
type verdict struct {
	At                 signpost.Instant `json:"at"`
	Admitted           bool             `json:"admitted"`
	Never              bool             `json:"never"`
	ClockFault         bool             `json:"clock_fault"`
	Windows            []windowVerdict  `json:"windows"`
	Concurrent         int              `json:"concurrent"`
	InUse              int              `json:"in_use"`
	ConcurrencyRefused bool             `json:"concurrency_refused"`
	WaitMS             int64            `json:"wait_ms"`
	RetryAfter         int64            `json:"retry_after"`
	LeaseExpires       signpost.Instant `json:"lease_expires"`
}

type windowVerdict struct {
	Seconds   int64            `json:"seconds"`
	Limit     uint32           `json:"limit"`
	Start     signpost.Instant `json:"start"`
	Used      uint32           `json:"used"`
	Remaining uint32           `json:"remaining"`
	Reset     signpost.Instant `json:"reset"`
	Refused   bool             `json:"refused"`
}

func verdictOf(d *signpost.Decision) verdict {
	v := verdict{
		At:                 d.At,
		Admitted:           d.Admitted,
		Never:              d.Never,
		ClockFault:         d.ClockFault,
		Concurrent:         int(d.Concurrent),
		InUse:              int(d.InUse),
		ConcurrencyRefused: d.ConcurrencyRefused,
		WaitMS:             d.RetryAfter().Milliseconds(),
		RetryAfter:         d.RetryAfterSeconds(),
		LeaseExpires:       d.Lease.Expires,
	}
	for _, w := range d.Windows() {
		v.Windows = append(v.Windows, windowVerdict{
			Seconds:   int64(w.Len.Seconds()),
			Limit:     w.Limit,
			Start:     w.Start,
			Used:      w.Used,
			Remaining: w.Remaining(),
			Reset:     w.Reset(),
			Refused:   w.Refused,
		})
	}
	return v
}

// String is on several lines, so that two verdicts can be told apart by eye. Equal verdicts, and only those, have
// equal strings.
func (v verdict) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "at %d admitted=%v never=%v clockFault=%v wait=%dms retryAfter=%ds\n", v.At, v.Admitted, v.Never, v.ClockFault, v.WaitMS, v.RetryAfter)
	for _, w := range v.Windows {
		fmt.Fprintf(&s, "  %ds: start %d used %d of %d, remaining %d, reset %d, refused=%v\n", w.Seconds, w.Start, w.Used, w.Limit, w.Remaining, w.Reset, w.Refused)
	}
	fmt.Fprintf(&s, "  concurrency: %d of %d, refused=%v, lease until %d", v.InUse, v.Concurrent, v.ConcurrencyRefused, v.LeaseExpires)
	return s.String()
}

// inspectionText writes down an inspection. Leases that expire together are in no order.
func inspectionText(in signpost.Inspection) string {
	var s strings.Builder
	fmt.Fprintf(&s, "at %d\n", in.At)
	for _, c := range in.Counts {
		fmt.Fprintf(&s, "  %v: start %d used %d\n", c.Len, c.Start, c.Used)
	}
	for i, l := range in.Leases {
		if i > 0 && l.Expires < in.Leases[i-1].Expires {
			fmt.Fprintf(&s, "  out of order:")
		}
	}
	var lines []string
	for _, l := range in.Leases {
		lines = append(lines, fmt.Sprintf("  lease %x of %v until %d\n", l.ID, l.Key, l.Expires))
	}
	slices.Sort(lines)
	return s.String() + strings.Join(lines, "")
}
