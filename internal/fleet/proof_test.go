// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// together is what all processes were told.
func together(all []*seen) *seen {
	sum := &seen{Windows: map[windowID]*tally{}, Leases: map[keyID][]slot{}}
	for _, s := range all {
		sum.Takes += s.Takes
		sum.Admitted += s.Admitted
		sum.Unwell += s.Unwell
		sum.Faults = append(sum.Faults, s.Faults...)
		for id, t := range s.Windows {
			u := sum.tally(id)
			u.Charged = append(u.Charged, t.Charged...)
			for l, n := range t.Looked {
				u.Looked[l] += n
			}
		}
		for id, told := range s.Leases {
			sum.Leases[id] = append(sum.Leases[id], told...)
		}
	}
	return sum
}

// prove returns what is wrong with what was told of an interval that began at nothing. An admission that says that u are used with
// its cost c took the units from u-c to u. Each unit has to be taken exactly once, by somebody whose limit it was below; and
// who was not admitted has to have seen a count that there was: one where an admission ended. So a window that refused
// a cost of 1 was full to the last unit.
func (t *tally) prove() (used uint32, _ error) {
	slices.SortFunc(t.Charged, func(a, b count) int { return cmp.Compare(a.Used, b.Used) })
	were := map[uint32]bool{0: true}
	for _, c := range t.Charged {
		switch {
		case c.Used != used+c.Cost:
			return 0, fmt.Errorf("%d used with a cost of %d, where the admissions below end at %d", c.Used, c.Cost, used)
		case c.Used > c.Limit:
			return 0, fmt.Errorf("%d used of %d", c.Used, c.Limit)
		}
		used = c.Used
		were[used] = true
	}
	for l, n := range t.Looked {
		c := l.Count
		switch over := uint64(c.Used)+uint64(c.Cost) > uint64(c.Limit); {
		case !were[c.Used]:
			return 0, fmt.Errorf("%d takes were told of %d used, which there never were", n, c.Used)
		case l.Refused != over:
			return 0, fmt.Errorf("%d takes of cost %d were told refused=%v at %d used of %d", n, c.Cost, l.Refused, c.Used, c.Limit)
		}
	}
	return used, nil
}

// proveSlots returns what is wrong with what was told of a key's leases. One is alive for certain from the return of its take until it
// is given back, and at most from the call until that has arrived.
func proveSlots(told []slot) error {
	for i := range told {
		s := &told[i]
		if s.Granted != (s.InUse < s.Allowed) {
			return fmt.Errorf("granted=%v with %d of %d in use", s.Granted, s.InUse, s.Allowed)
		}
		var certain, possible int32
		for j := range told {
			o := &told[j]
			if i == j || !o.Granted {
				continue
			}
			if o.Return <= s.Call && o.Release >= s.Return {
				certain++
			}
			if o.Call <= s.Return && o.Gone >= s.Call {
				possible++
			}
		}
		if s.InUse < certain || s.InUse > possible {
			return fmt.Errorf("granted=%v with %d of %d in use, when from %d to %d were", s.Granted, s.InUse, s.Allowed, certain, possible)
		}
	}
	return nil
}

func TestProofsFindFaults(t *testing.T) {
	for name, c := range map[string]struct {
		tally
		sound bool
	}{
		"sound":                    {tally{Charged: []count{{3, 2, 5}, {1, 1, 5}, {5, 2, 5}}, Looked: map[look]int{{count{5, 1, 5}, true}: 9, {count{1, 5, 5}, true}: 1, {count{1, 1, 5}, false}: 1}}, true},
		"one too many":             {tally{Charged: []count{{1, 1, 1}, {2, 1, 1}}}, false},
		"one charged twice":        {tally{Charged: []count{{1, 1, 5}, {3, 1, 5}}}, false},
		"a unit given twice":       {tally{Charged: []count{{1, 1, 5}, {1, 1, 5}}}, false},
		"a cost that overlaps":     {tally{Charged: []count{{2, 2, 5}, {3, 2, 5}}}, false},
		"begun above 0":            {tally{Charged: []count{{2, 1, 5}}}, false},
		"refused one that fits":    {tally{Charged: []count{{1, 1, 2}}, Looked: map[look]int{{count{1, 1, 2}, true}: 1}}, false},
		"refused by a count":       {tally{Charged: []count{{1, 1, 2}}, Looked: map[look]int{{count{2, 1, 2}, true}: 1}}, false},
		"passed one that does not": {tally{Charged: []count{{1, 1, 1}}, Looked: map[look]int{{count{1, 1, 1}, false}: 1}}, false},
	} {
		if _, err := c.prove(); (err == nil) != c.sound {
			t.Errorf("%s: %v", name, err)
		}
	}
	held := func(from int64, inUse int32) slot { return slot{from, from + 1, inUse, 2, true, from + 10, from + 12} }
	for name, c := range map[string]struct {
		told  []slot
		sound bool
	}{
		"sound":                {[]slot{held(0, 0), held(5, 1), {Call: 7, Return: 8, InUse: 2, Allowed: 2}, held(20, 0)}, true},
		"on its way back":      {[]slot{held(0, 0), held(11, 1)}, true},
		"one too many":         {[]slot{held(0, 0), held(3, 1), held(6, 1)}, false},
		"one that is not seen": {[]slot{held(0, 0), held(5, 0)}, false},
		"one that was leaked":  {[]slot{held(0, 0), held(20, 1)}, false},
		"refused a free slot":  {[]slot{held(0, 0), {Call: 7, Return: 8, InUse: 1, Allowed: 2}}, false},
		"refused by nobody":    {[]slot{{Call: 7, Return: 8, InUse: 2, Allowed: 2}}, false},
		"granted at the bound": {[]slot{held(0, 0), held(2, 1), held(5, 2)}, false},
	} {
		if err := proveSlots(c.told); (err == nil) != c.sound {
			t.Errorf("slots, %s: %v", name, err)
		}
	}
}
