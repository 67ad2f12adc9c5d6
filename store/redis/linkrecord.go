// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

var errMalformed = errors.New("malformed")

var keepMillis = strconv.FormatInt(keepEnded.Milliseconds(), 10)

// linkValue is what never changes of a record. Times are in Unix milliseconds; 0 is none.
type linkValue struct {
	Label   []byte        `json:"label,omitempty"`
	Origin  link.Origin   `json:"origin"`
	Bound   string        `json:"bound,omitempty"`
	Home    signpost.Home `json:"home,omitzero"`
	Created int64         `json:"created"`
	Expires int64         `json:"expires,omitempty"`
}

func encodeLink(r *link.Record) (string, error) {
	v := linkValue{Label: []byte(r.Label), Origin: r.Origin, Bound: r.Bound.String(), Home: r.Home, Created: r.Created.UnixMilli()}
	if !r.Expires.IsZero() {
		v.Expires = r.Expires.UnixMilli()
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// decodeLink reads the fields of a record: its hash, its value, and when it was revoked. All are nil if there is none.
func decodeLink(m *rueidis.RedisMessage) (r link.Record, found bool, _ error) {
	fields, err := m.ToArray()
	if err != nil || len(fields) != 3 {
		return r, false, errMalformed
	}
	if fields[0].IsNil() {
		return r, false, nil
	}
	hash, err := fields[0].ToString()
	if err != nil || len(hash) != len(r.Hash) {
		return r, false, errMalformed
	}
	text, err := fields[1].ToString()
	if err != nil {
		return r, false, errMalformed
	}
	var v linkValue
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return r, false, fmt.Errorf("%w: %w", errMalformed, err)
	}
	r = link.Record{
		Hash: link.Hash([]byte(hash)), Label: string(v.Label), Origin: v.Origin, Home: v.Home,
		Created: time.UnixMilli(v.Created).UTC(), Expires: instantOf(v.Expires),
	}
	if v.Bound != "" {
		if r.Bound, err = signpost.ParseBound(v.Bound); err != nil {
			return r, false, fmt.Errorf("%w: %w", errMalformed, err)
		}
	}
	if !fields[2].IsNil() {
		text, _ := fields[2].ToString()
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return r, false, errMalformed
		}
		r.Revoked = instantOf(ms)
	}
	return r, true, nil
}

func millis(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func instantOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
