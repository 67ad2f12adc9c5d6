// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
)

// What lua/take.lua returns before the windows: always, and for an expensive take after that.
const (
	takeHead  = 1 + 8
	leaseHead = 4 + 8
)

var errVerdict = errors.New("the script's verdict is not that of the rules")

// Take implements [signpost.Store]. The Commit is kept: what a server that loses its memory forgets is a matter of how it is set up.
func (s *Store) Take(ctx context.Context, q signpost.Request) (d signpost.Decision, _ signpost.Commit, _ error) {
	if err := s.take(ctx, &q, &d); err != nil {
		return signpost.Decision{}, signpost.Commit{}, fmt.Errorf("take from redis: %w", err)
	}
	return d, signpost.Commit{}, nil
}

func (s *Store) take(ctx context.Context, q *signpost.Request, d *signpost.Decision) error {
	if q.At != 0 {
		return s.ask(ctx, q, &signpost.Raw{}, d)
	}
	if err := s.refuses(ctx); err != nil {
		return err
	}
	sent := s.facts.now()
	if s.facts.refuse(q, sent, d) {
		return nil
	}
	var raw signpost.Raw
	err := s.ask(ctx, q, &raw, d)
	if err == nil {
		s.facts.learn(q, &raw, d, sent)
	}
	return err
}

// ask has the server decide.
func (s *Store) ask(ctx context.Context, q *signpost.Request, raw *signpost.Raw, d *signpost.Decision) error {
	var buf [8 + 4 + 8*signpost.MaxWindows]byte
	b := binary.BigEndian.AppendUint64(buf[:0], uint64(q.At))
	b = binary.BigEndian.AppendUint32(b, max(q.Cost, 1))
	seconds, limits := q.Bound.Seconds(), q.Bound.Limits()
	for i, length := range seconds {
		if length == 0 {
			break
		}
		b = binary.BigEndian.AppendUint32(b, length)
		b = binary.BigEndian.AppendUint32(b, limits[i])
	}
	keys, args := [2]string{s.windowsOf(q.Key)}, [2]string{string(b)}
	n := 1
	if q.Expensive {
		n = 2
		keys[1] = s.leasesOf(q.Key)
		b = binary.BigEndian.AppendUint32(buf[:0], uint32(q.Bound.Concurrent()))
		args[1] = string(append(b, q.LeaseID[:]...))
	}
	var m rueidis.RedisMessage
	var err error
	if !q.Expensive && q.At == 0 && s.together(s.nodes.alone) {
		m, err = s.runTogether(ctx, s.nodes.alone, keys[0], args[0])
	} else {
		m, err = s.call(ctx, q.Key, takeScript, keys[:n], args[:n])
	}
	if err != nil {
		return err
	}
	reply, err := m.ToString()
	if err != nil {
		return fmt.Errorf("reply is malformed: %w", err)
	}
	return judge(reply, q, raw, d)
}

// judge reads the reply to a take, and decides from the state in it as the script did.
func judge(reply string, q *signpost.Request, raw *signpost.Raw, d *signpost.Decision) error {
	head := takeHead
	if q.Expensive {
		head += leaseHead
	}
	if len(reply) < head || reply[0] > 1 {
		return fmt.Errorf("reply of %d bytes is malformed", len(reply))
	}
	*raw = signpost.Raw{Now: signpost.Instant(be64(reply[1:]))}
	if q.Expensive {
		raw.InUse, raw.FreesAt = be32(reply[takeHead:]), signpost.Instant(be64(reply[takeHead+4:]))
	}
	if raw.Now <= 0 || raw.Now > signpost.MaxInstant || q.At != 0 && raw.Now != q.At {
		return fmt.Errorf("reply is for the instant %d", raw.Now)
	}
	if err := readWindows(raw, q, reply[head:]); err != nil {
		return err
	}
	signpost.JudgeInto(raw, q, d)
	if d.Admitted != (reply[0] == 1) {
		return errVerdict
	}
	return nil
}

// readWindows finds the windows of a request in what is stored.
func readWindows(raw *signpost.Raw, q *signpost.Request, state string) error {
	if err := checkState(state); err != nil {
		return err
	}
	for i, seconds := range q.Bound.Seconds() {
		if seconds == 0 {
			break
		}
		raw.Windows[i] = stored(state, seconds)
	}
	return nil
}
