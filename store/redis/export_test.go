// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"time"

	"github.com/signposthq/signpost"
)

// Known returns how many full keys a store knows of.
func Known(s *Store) int64 { return s.facts.known.Load() }

// NameOf returns the name of the string with a key's windows.
func NameOf(s *Store, k signpost.Key) string { return s.windowsOf(k) }

// RefuseLate has a caller that looked at the clock some time ago be refused by what is known now.
func RefuseLate(s *Store, q signpost.Request, ago time.Duration) (d signpost.Decision, refused bool) {
	refused = s.facts.refuse(&q, s.facts.now()-ago, &d)
	return d, refused
}

// LearnLate has a refusal arrive that was asked for some time ago.
func LearnLate(s *Store, q signpost.Request, d signpost.Decision, ago time.Duration) {
	raw := signpost.Raw{Now: d.At}
	for i, w := range d.Windows() {
		raw.Windows[i] = signpost.RawWindow{Start: w.Start, Used: w.Used}
	}
	s.facts.learn(&q, &raw, &d, s.facts.now()-ago)
}

// Age lets time pass for the records that a registry remembers.
func Age(l *Links, d time.Duration) {
	l.known.mu.Lock()
	defer l.known.mu.Unlock()
	for id, r := range l.known.records {
		r.read -= d
		l.known.records[id] = r
	}
}

// Late returns how many records are on their way that nobody waits for.
func Late(l *Links) int {
	l.known.mu.RLock()
	defer l.known.mu.RUnlock()
	return len(l.known.late)
}

// Calm reports whether a store sends to its server without asking first whether it is there.
func Calm(s *Store) bool { return s.nodes.alone.calm() }

// CalmAfter reports whether a server is calm after a call to it went through, in the midst of which a connection ended or none did.
func CalmAfter(ended bool) bool {
	var sv server
	began := sv.wrongs.Load()
	if ended {
		sv.wrong()
	}
	sv.calmSince(began)
	return sv.calm()
}

// Inside returns how many calls to its server have not returned.
func Inside(s *Store) int64 { return s.nodes.alone.inside.Load() }

// Patient has a registry wait for a server on a machine that is busy.
func Patient(l *Links) { l.within = time.Minute }

// SendsReleases reports whether all leases that a store was given back are on their way, or being tried again.
func SendsReleases(s *Store) bool {
	s.releases.mu.Lock()
	defer s.releases.mu.Unlock()
	waiting, sending := s.releases.queues[s.nodes.alone]
	return sending && len(waiting) == 0
}

// Asleep reports whether a registry leaves its server alone.
func Asleep(l *Links) bool { return l.known.asleep.Load() }

// ReadWhile has a record be read while something is pushed, and reports whether it is remembered.
func ReadWhile(l *Links, id string, pushed func()) bool {
	lookup := l.known.look(id)
	pushed()
	kept := l.known.put(lookup, remembered{read: l.known.now()})
	r, ok := l.known.get(id)
	return kept && ok && r.sure(&l.known, l.known.now())
}

// GoneWhile has a record be read, and then be found gone while something happens. It reports whether it still serves.
func GoneWhile(l *Links, id string, meanwhile func()) bool {
	ReadWhile(l, id, func() {})
	lookup, asked := l.known.look(id), l.known.now()
	meanwhile()
	l.known.gone(lookup, asked)
	_, ok := l.known.get(id)
	return ok
}

// Forget has a push say that a record has changed, and Lost that the connection is lost which pushes come by.
func Forget(l *Links, id string) { l.known.forget(id) }
func Lost(l *Links)              { l.known.doubt() }

// OpenApart opens a store that takes a node of a Cluster for a server without one.
func OpenApart(ctx context.Context, o Options) (*Store, error) {
	option, err := o.client()
	if err != nil {
		return nil, err
	}
	option.ForceSingleClient = true
	return openWith(ctx, option, o.prefix())
}

// TakeTogether has cheap takes, at most 31 and one that nobody asked for, wait for each other and then go in one batch. It calls
// before when all are there. The takes are those of the caller, each of whom has to make one.
func TakeTogether(s *Store, callers []func(), before func()) {
	takes := &s.nodes.alone.takes
	k := signpost.KeyOf("redis test", "of the one that leads")
	b, _ := takes.join(s.windowsOf(k), string(binary.BigEndian.AppendUint32(make([]byte, 8), 1)))
	var made sync.WaitGroup
	for i, call := range callers {
		made.Go(call)
		for joined := 0; joined < i+2; runtime.Gosched() {
			takes.mu.Lock()
			joined = len(b.keys)
			takes.mu.Unlock()
		}
	}
	takes.shut(b)
	before()
	go s.sendBatch(s.nodes.alone, b)
	made.Wait()
}

// Doubt says that the connection of a store is lost.
func Doubt(s *Store) { s.nodes.alone.wrong() }
