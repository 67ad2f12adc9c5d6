// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/signposthq/signpost"
)

// testLinearizable runs clients at the same time on a few keys, and looks for an order of their operations,
// none moved out of the time between its call and its return, in which the model gives the same answers.
func testLinearizable(t *testing.T, o Options) {
	const (
		clients = 6
		each    = 36
		keys    = 2
	)
	stores := o.clients(t, clients)
	var kinds []opKind // what the store can do
	for _, kind := range shared(t, map[string]signpost.Store{"store": stores[0]}) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	bound := signpost.MustParseBound("9/10s 14/min 3 concurrent")
	prefix := unused()

	var (
		wg      sync.WaitGroup
		start   = make(chan struct{})
		mu      sync.Mutex
		history []porcupine.Operation
	)
	begin := time.Now()
	for client, s := range stores {
		wg.Go(func() {
			var held []signpost.LeaseID
			granted := leases{}
			<-start
			for i := range each {
				key := signpost.KeyOf(prefix, string(rune('a'+(i+client)%keys)))
				op := operation{q: signpost.Request{
					Key:   key,
					Bound: bound,
					// Two seconds around an edge, on clocks that disagree.
					At: t0.Add(time.Duration(9500+i*60-client%3*400) * time.Millisecond),
				}}
				switch i % 9 {
				case 0, 1, 5:
					op.q.Expensive, op.q.LeaseID = true, signpost.NewLeaseID()
				case 2:
					op.q.Cost = 2
				case 3:
					op.kind = opPeek
				case 4, 6:
					op.kind = opRelease
				case 7:
					op.kind = opRenew
				case 8: // rarely, so that windows and slots are full most of the time
					op.kind = []opKind{opReset, opSettle, opInspect}[(i/9+client)%3]
					op.counts = []signpost.Count{{Len: 10 * time.Second, Start: t0.Add(10 * time.Second), Used: 1}}
				}
				if !slices.Contains(kinds, op.kind) {
					continue
				}
				if op.kind == opRelease || op.kind == opRenew {
					if len(held) == 0 {
						continue
					}
					op.q.LeaseID = held[0]
					op.q.Key = granted.of(&op.q).Key
				}
				if op.kind == opRelease {
					held = held[1:]
				}
				call := time.Since(begin)
				answer, err := op.store(t, s, granted)
				back := time.Since(begin)
				if err != nil {
					t.Errorf("client %d: %v: %v", client, op, err)
					return
				}
				if _, ok := granted[op.q.LeaseID]; ok && op.kind == opTake {
					held = append(held, op.q.LeaseID)
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: op, Call: int64(call), Output: answer, Return: int64(back)})
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	if t.Failed() {
		return
	}
	switch porcupine.CheckOperationsTimeout(linear, history, patience) {
	case porcupine.Illegal:
		t.Errorf("%d operations of %d clients are in no order in which one store would give these answers", len(history), clients)
	case porcupine.Unknown:
		t.Errorf("no order of %d operations was found or ruled out in %v", len(history), patience)
	}
}

// linear is the model for the search: it never changes a state in place.
var linear = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[signpost.Key]int{}
		for _, op := range history {
			key := op.Input.(operation).q.Key
			if _, ok := at[key]; !ok {
				at[key] = len(parts)
				parts = append(parts, nil)
			}
			parts[at[key]] = append(parts[at[key]], op)
		}
		return parts
	},
	Init: func() any { return newModel() },
	Step: func(state, input, output any) (bool, any) {
		next := state.(*model).clone()
		return input.(operation).model(next) == output.(string), next
	},
	Equal: func(a, b any) bool { return a.(*model).String() == b.(*model).String() },
}
