// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
)

const (
	// maxDirect is how many calls may be inside one server's pipeline, which has room for twice as many, before
	// callers step back from it.
	maxDirect = 512
	// maxWaiting is how many calls may wait for one server in any way.
	maxWaiting = 4096
	// maxLeft is how many callers may go away before it is looked whether the server answers: what they have sent stays in the
	// pipeline until it does.
	maxLeft = 256
	// lastAnswers is how long a connection to a master that was demoted is kept for the calls that are under way: each is
	// refused as well, and one that learns why was not counted for certain.
	lastAnswers = 20 * time.Millisecond
)

var errCrowded = errors.New("too many calls wait for the server")

// server is one server that takes are sent to, or the one that Sentinels name.
type server struct {
	name string
	// The server is calm while nothing has gone wrong since a call began that went through. So an answer that comes as its
	// connection ends is no sign of a connection.
	wrongs atomic.Int64 // counts connections that ended and calls that failed
	calmed atomic.Int64 // what wrongs was then, plus one
	inside atomic.Int64 // calls that have not returned, a batch as one
	left   atomic.Int64 // callers that went away since the server was seen to answer
	takes  batches
}

// calm reports whether there is a connection, and the last call went through.
func (sv *server) calm() bool { return sv.calmed.Load() == sv.wrongs.Load()+1 }

// calmSince notes that a call went through that began when wrongs was as given.
func (sv *server) calmSince(wrongs int64) { sv.calmed.Store(wrongs + 1) }

// wrong ends the calm.
func (sv *server) wrong() { sv.wrongs.Add(1) }

// connection is the client underneath, made in the background and as often as it takes.
type connection struct {
	option rueidis.ClientOption
	client atomic.Pointer[rueidis.Client] // nil until one could be made
	nodes  nodes

	mu     sync.Mutex
	making *making
	closed bool
	open   map[*conn]struct{}
}

// making is one try to make the client, for all who wait for it.
type making struct {
	done   chan struct{}
	client rueidis.Client
	err    error
}

// conn is a network connection whose end is noticed.
type conn struct {
	net.Conn
	owner  *connection
	server string
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	c.owner.nodes.at(c.server).wrong()
	return c.Conn.Close()
}

func (x *connection) init(option rueidis.ClientOption, prefix string) {
	x.option, x.open = option, make(map[*conn]struct{})
	dial := option.DialCtxFn // for a socket
	if dial == nil {
		dial = dialTCP
	}
	x.option.DialCtxFn = func(ctx context.Context, server string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		nc, err := dial(ctx, server, d, t)
		if err != nil {
			return nil, err
		}
		c := &conn{nc, x, server}
		x.mu.Lock()
		x.open[c] = struct{}{}
		x.mu.Unlock()
		return c, nil
	}
	x.nodes.init(&x.option, prefix)
}

func dialTCP(ctx context.Context, server string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	if t != nil {
		return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", server)
	}
	return d.DialContext(ctx, "tcp", server)
}

// get returns the client, making it first if there is none yet. It takes as long as a connection may.
func (x *connection) get() (rueidis.Client, error) {
	if c := x.client.Load(); c != nil {
		return *c, nil
	}
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return nil, signpost.ErrClosed
	}
	m := x.making
	if m == nil {
		m = &making{done: make(chan struct{})}
		x.making = m
		go x.make(m)
	}
	x.mu.Unlock()
	<-m.done
	return m.client, m.err
}

func (x *connection) make(m *making) {
	c, err := rueidis.NewClient(x.option)
	if err == nil {
		x.nodes.follow(c)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.making = nil
	switch {
	case err != nil:
		m.err = err
	case x.closed:
		m.err = signpost.ErrClosed
		go c.Close()
	default:
		m.client = c
		x.client.Store(&c)
	}
	close(m.done)
}

// oneOfMany returns an error if the client takes a node of a Cluster for a server that has all keys, as it does with a user who may not
// ask which nodes there are.
func (x *connection) oneOfMany(ctx context.Context) error {
	c := x.client.Load()
	if c == nil || !x.nodes.alone.calm() || (*c).Mode() != rueidis.ClientModeStandalone || x.option.ForceSingleClient {
		return nil
	}
	hello, err := (*c).Do(ctx, (*c).B().Hello().Build()).ToMap()
	if err != nil {
		return nil // whatever speaks no HELLO is no Cluster
	}
	mode := hello["mode"]
	if text, _ := mode.ToString(); text != "cluster" {
		return nil
	}
	return fmt.Errorf("%w: it is a node of a Cluster, and the user lacks +cluster|slots, or +cluster|shards; see docs/fleet.md for what the user must be allowed", signpost.ErrStoreAuth)
}

// run runs a script on the server that keeps its keys. It returns by the deadline of ctx.
func (x *connection) run(ctx context.Context, sv *server, sc *script, keys, args []string) (rueidis.RedisMessage, error) {
	inside := sv.inside.Add(1)
	if x.smooth(sv, inside) {
		m, err := sc.send(ctx, *x.client.Load(), keys, args).ToMessage()
		sv.inside.Add(-1)
		if err != nil {
			return m, x.failed(ctx, sv, err)
		}
		return m, nil
	}
	if inside > maxWaiting {
		sv.inside.Add(-1)
		return rueidis.RedisMessage{}, notCharged(errCrowded)
	}
	return x.runLater(ctx, sv, sc, slices.Clone(keys), slices.Clone(args))
}

// smooth reports whether one of so many calls to a server need not wait before it is sent.
func (x *connection) smooth(sv *server, inside int64) bool {
	return x.client.Load() != nil && sv.calm() && inside <= maxDirect
}

// runLater is run for a server that may not be reached. The client has no eye on ctx while it waits for a connection that
// another caller makes or for room in a full pipeline, and it makes a connection under the deadline of the caller that happens to
// need it first. So while any of this can happen the caller does not wait for the client itself, and what has to wait asks for
// something harmless first.
func (x *connection) runLater(ctx context.Context, sv *server, sc *script, keys, args []string) (rueidis.RedisMessage, error) {
	type result struct {
		m   rueidis.RedisMessage
		err error
	}
	done := make(chan result, 1)
	var claimed atomic.Bool // by the goroutine to send, or by the caller to leave
	go func() {
		defer sv.inside.Add(-1)
		var r result
		if r.err = x.reach(sv, keys[0]); r.err != nil {
			r.err = notCharged(x.failed(ctx, sv, r.err))
		} else if claimed.CompareAndSwap(false, true) {
			if r.m, r.err = sc.send(ctx, *x.client.Load(), keys, args).ToMessage(); r.err != nil {
				r.err = x.failed(ctx, sv, r.err)
			}
		}
		done <- r
	}()
	select {
	case r := <-done:
		return r.m, r.err
	case <-ctx.Done():
		if claimed.CompareAndSwap(false, true) {
			return rueidis.RedisMessage{}, notCharged(ctx.Err())
		}
		return rueidis.RedisMessage{}, ctx.Err()
	}
}

// reach returns once there is a connection to the server that keeps a key.
func (x *connection) reach(sv *server, key string) error {
	c, err := x.get()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	wrongs := sv.wrongs.Load()
	err = c.Do(ctx, c.B().Exists().Key(key).Build()).Error()
	if _, answered := rueidis.IsRedisErr(err); err != nil && !answered {
		return err
	}
	sv.left.Store(0)
	sv.calmSince(wrongs)
	return nil
}

// failed notes what an error says of the server, and returns it in the words of this module.
func (x *connection) failed(ctx context.Context, sv *server, err error) error {
	refused, answered := rueidis.IsRedisErr(err)
	switch {
	case rueidis.IsRedisNil(err): // an answer, if not one of ours
	case errors.Is(err, context.Canceled) && sv.left.Add(1) < maxLeft:
		return err // which says nothing of the server
	case !answered:
		sv.wrong()
	case codeOf(refused) == "READONLY":
		// A master that was demoted keeps its connections. The new one may be behind the same address.
		x.drop(sv)
	}
	x.nodes.doubt()
	return x.explain(ctx, err)
}

// drop ends the connections to a server in a moment, so that the next call makes a new one.
func (x *connection) drop(sv *server) {
	x.mu.Lock()
	var those []*conn
	for c := range x.open {
		if x.nodes.at(c.server) == sv {
			those = append(those, c)
		}
	}
	x.mu.Unlock()
	time.AfterFunc(lastAnswers, func() {
		for _, c := range those {
			c.Close()
		}
	})
}

// close ends the client, within about a second.
func (x *connection) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.nodes.stop()
	if c := x.client.Load(); c != nil {
		(*c).Close()
	}
}
