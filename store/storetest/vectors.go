// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

// vectorsJSON holds the golden vectors. Its format:
//
//   - bounds: texts of bounds, what they mean, and how they print; bad_bounds: texts that are errors.
//   - keys: the digest and the tag of keys, made with in_tag (which may be empty) or without one.
//   - vectors: each is a sequence of steps on a store that holds nothing of its keys. All instants are Unix milliseconds.
//
// A step has an op and, unless it is of the default key, its key: namespace and id.
//
//   - take and peek: at, bound, and if not 0 or false cost and expensive. An expensive take that can be admitted names
//     its lease in hexadecimal. repeat says how often it is done; all are admitted, or all refused, as want says, and
//     want is the last one's decision.
//   - release: lease. renew: at, lease, and either want_expires or want_gone. reset.
//   - settle: at, counts. inspect: at, and what it shows: want_counts, shortest length first, and want_leases, first to expire first.
//
// A field that is not there is 0 or false. A decision's at is that of its step.
//
//go:embed vectors.json
var vectorsJSON []byte

type vector struct {
	Name  string `json:"name"`
	Why   string `json:"why"`
	Steps []step `json:"steps"`
}

type step struct {
	Op          string           `json:"op"`
	At          signpost.Instant `json:"at"`
	Key         []string         `json:"key"`
	Bound       *signpost.Bound  `json:"bound"`
	Cost        uint32           `json:"cost"`
	Expensive   bool             `json:"expensive"`
	Lease       string           `json:"lease"`
	Repeat      int              `json:"repeat"`
	Counts      []stepCount      `json:"counts"`
	Want        verdict          `json:"want"`
	WantGone    bool             `json:"want_gone"`
	WantExpires signpost.Instant `json:"want_expires"`
	WantCounts  []stepCount      `json:"want_counts"`
	WantLeases  []stepLease      `json:"want_leases"`
}

type stepCount struct {
	Seconds int64            `json:"seconds"`
	Start   signpost.Instant `json:"start"`
	Used    uint32           `json:"used"`
}

type stepLease struct {
	Lease   string           `json:"lease"`
	Expires signpost.Instant `json:"expires"`
}

func testVectors(t *testing.T, o Options) {
	var file struct {
		Format  int      `json:"format"`
		Vectors []vector `json:"vectors"`
	}
	if err := json.Unmarshal(vectorsJSON, &file); err != nil {
		t.Fatalf("read vectors.json: %v", err)
	}
	if file.Format != 1 || len(file.Vectors) == 0 {
		t.Fatalf("vectors.json is of format %d with %d vectors", file.Format, len(file.Vectors))
	}
	shared := o.open(t)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			s, prefix := shared, unused()
			// When a second key comes, a store may drop the first, with its leases, if that had ended at an instant of another vector.
			if slices.ContainsFunc(v.Steps, func(st step) bool { return st.Key != nil }) {
				s = o.open(t)
			}
			for i := range v.Steps {
				if !v.Steps[i].run(t, i, s, prefix, &o) {
					t.Logf("the vector ends at step %d: the store lacks %s", i, v.Steps[i].Op)
					return
				}
			}
		})
	}
}

// run does a step. It reports false if the store is meant to lack what the step needs.
func (st *step) run(t *testing.T, number int, s signpost.Store, prefix string, o *Options) bool {
	t.Helper()
	parts := st.Key
	if parts == nil {
		parts = []string{"rules", "link"}
	}
	key := signpost.KeyOf(prefix+parts[0], parts[1])
	lease := signpost.Lease{Key: key, ID: leaseID(t, st.Lease)}
	fail := func(got, want any) {
		t.Helper()
		t.Fatalf("step %d, %s:\n got %v\nwant %v", number, st.Op, got, want)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("step %d, %s: %v", number, st.Op, err)
		}
	}
	switch st.Op {
	case "take", "peek":
		q := signpost.Request{Key: key, Bound: *st.Bound, Cost: st.Cost, Expensive: st.Expensive, At: st.At, LeaseID: lease.ID}
		if q.Expensive && st.Lease == "" {
			q.LeaseID = signpost.NewLeaseID()
		}
		do := s.Take
		if st.Op == "peek" {
			do = s.Peek
		}
		st.Want.At = st.At
		var d signpost.Decision
		for range max(1, st.Repeat) {
			var err error
			d, _, err = do(t.Context(), q)
			check(err)
			if d.Admitted != st.Want.Admitted || d.Degraded || d.Expensive != st.Expensive {
				fail(verdictOf(&d), st.Want)
			}
		}
		if got := verdictOf(&d); got.String() != st.Want.String() {
			fail(got, st.Want)
		}
		if granted := d.Admitted && q.Expensive && st.Op == "take"; granted && (d.Lease.ID != q.LeaseID || d.Lease.Key != key) || !granted && d.Lease != (signpost.Lease{}) {
			fail(d.Lease, lease)
		}
	case "release":
		release(t, s, lease)
	case "renew":
		if o.lacks(Renews) {
			return false
		}
		got, err := s.(signpost.Renewer).Renew(t.Context(), lease, st.At)
		if st.WantGone {
			if !errors.Is(err, signpost.ErrLeaseGone) {
				fail(err, signpost.ErrLeaseGone)
			}
			break
		}
		check(err)
		if lease.Expires = st.WantExpires; got != lease {
			fail(got, lease)
		}
	case "reset":
		if o.lacks(Resets) {
			return false
		}
		check(s.(signpost.Resetter).Reset(t.Context(), key))
	case "settle":
		if o.lacks(Settles) {
			return false
		}
		check(s.(signpost.Settler).Settle(t.Context(), key, st.At, countsOf(st.Counts)))
	case "inspect":
		if o.lacks(Inspects) {
			return true // it would only have shown something
		}
		got, err := s.(signpost.Inspector).Inspect(t.Context(), key, st.At)
		check(err)
		want := signpost.Inspection{At: st.At, Counts: countsOf(st.WantCounts)}
		for _, l := range st.WantLeases {
			want.Leases = append(want.Leases, signpost.Lease{Key: key, ID: leaseID(t, l.Lease), Expires: l.Expires})
		}
		if inspectionText(got) != inspectionText(want) {
			fail(inspectionText(got), inspectionText(want))
		}
	default:
		t.Fatalf("step %d: unknown op %q", number, st.Op)
	}
	return true
}

func leaseID(t *testing.T, text string) (id signpost.LeaseID) {
	t.Helper()
	if text == "" {
		return id
	}
	if n, err := hex.Decode(id[:], []byte(text)); err != nil || n != len(id) {
		t.Fatalf("lease %q is not 32 hexadecimal digits", text)
	}
	return id
}

func countsOf(steps []stepCount) []signpost.Count {
	var counts []signpost.Count
	for _, c := range steps {
		counts = append(counts, signpost.Count{Len: time.Duration(c.Seconds) * time.Second, Start: c.Start, Used: c.Used})
	}
	return counts
}
