// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

// keepEnded is how long a link is kept, at least, after it was revoked or expired.
const keepEnded = 24 * time.Hour

// linkValue is the value of a link's record, in JSON: there are few, and fields come and go. Times are in Unix
// milliseconds; 0 is none.
type linkValue struct {
	Hash    link.Hash     `json:"hash"`
	Label   string        `json:"label,omitempty"`
	Origin  link.Origin   `json:"origin"`
	Bound   string        `json:"bound,omitempty"`
	Home    signpost.Home `json:"home,omitzero"`
	Created int64         `json:"created"`
	Expires int64         `json:"expires,omitempty"`
	Revoked int64         `json:"revoked,omitempty"`
}

func linkID(h link.Hash) id { return id(h[:16]) }

func linkRecord(r *link.Record) (record, error) {
	v, err := json.Marshal(linkValue{
		Hash: r.Hash, Label: r.Label, Origin: r.Origin, Bound: r.Bound.String(), Home: r.Home,
		Created: millis(r.Created), Expires: millis(r.Expires), Revoked: millis(r.Revoked),
	})
	return record{linkKind.of(linkID(r.Hash)), v}, err
}

func parseLink(i id, value []byte) (link.Record, error) {
	var v linkValue
	if err := json.Unmarshal(value, &v); err != nil {
		return link.Record{}, fmt.Errorf("%w: record of a link: %w", ErrCorrupt, err)
	}
	if linkID(v.Hash) != i {
		return link.Record{}, fmt.Errorf("%w: record of a link is that of another", ErrCorrupt)
	}
	r := link.Record{
		Hash: v.Hash, Label: v.Label, Origin: v.Origin, Home: v.Home,
		Created: instant(v.Created), Expires: instant(v.Expires), Revoked: instant(v.Revoked),
	}
	if v.Bound != "" {
		b, err := signpost.ParseBound(v.Bound)
		if err != nil {
			return link.Record{}, fmt.Errorf("%w: record of a link: %w", ErrCorrupt, err)
		}
		r.Bound = b
	}
	return r, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func appendTime(b []byte, t time.Time) []byte { return binary.AppendVarint(b, millis(t)) }

func parseTime(value []byte) (time.Time, error) {
	ms, used := binary.Varint(value)
	if used != len(value) || used == 0 {
		return time.Time{}, fmt.Errorf("%w: malformed time", ErrCorrupt)
	}
	return instant(ms), nil
}

// endedLongAgo reports that a link need not be shown any more.
func endedLongAgo(r *link.Record, now time.Time) bool {
	if r.Live(now) {
		return false
	}
	end := r.Expires
	if end.IsZero() || !r.Revoked.IsZero() && r.Revoked.Before(end) {
		end = r.Revoked
	}
	return now.Sub(end) >= keepEnded
}
