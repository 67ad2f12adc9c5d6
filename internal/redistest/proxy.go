// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a network between a client and a server. It ends with the test.
type Proxy struct {
	Addr string

	target  atomic.Pointer[string]
	delay   atomic.Int64 // of each direction, in nanoseconds
	dropped atomic.Bool  // something was lost
	lost    atomic.Bool
	mute    atomic.Bool
	muted   atomic.Int64
	ended   chan struct{}
	wg      sync.WaitGroup

	mu  sync.Mutex
	cut chan struct{} // closed by Cut

	sending sync.Mutex // held while a command is handed to the server and counted
	reached map[string]int
}

// NewProxy returns a network to a server's address that is perfect until it is told otherwise.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), ended: make(chan struct{}), cut: make(chan struct{}), reached: map[string]int{}}
	p.Point(target)
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.carry(c) })
		}
	})
	t.Cleanup(func() {
		close(p.ended)
		l.Close()
		p.wg.Wait()
	})
	return p
}

// URL returns how the store is told of the server behind the proxy.
func (p *Proxy) URL() string { return "redis://" + p.Addr }

// Point leads connections that are made from now on to another server.
func (p *Proxy) Point(target string) { p.target.Store(&target) }

// Delay makes everything late by d on its way, and as much on its way back.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Lose drops everything in both directions from now on, or no more. A connection that lost something stays silent for ever,
// as one whose packets are not answered.
func (p *Proxy) Lose(all bool) { p.lost.Store(all) }

// Cut ends the connections that there are, both sides of them.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.cut)
	p.cut = make(chan struct{})
}

// Reached returns how often a command has reached the server, which need not have read it. What was answered is counted for certain.
func (p *Proxy) Reached(command string) int {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.reached[command]
}

// HasLost reports whether anything was dropped by Lose.
func (p *Proxy) HasLost() bool { return p.dropped.Load() }

// Mute drops what the server says unasked from now on, or no more, and carries everything else.
func (p *Proxy) Mute(pushes bool) { p.mute.Store(pushes) }

// Muted returns how many pushes were dropped.
func (p *Proxy) Muted() int { return int(p.muted.Load()) }

func (p *Proxy) carry(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	server, err := net.Dial("tcp", *p.target.Load())
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	var dead atomic.Bool
	both.Go(func() {
		p.copy(server, client, &values{in: bufio.NewReader(client), drops: dropsNothing}, &dead, p.hand)
	})
	both.Go(func() {
		p.copy(client, server, &values{in: bufio.NewReader(server), drops: p.drops}, &dead, net.Conn.Write)
	})
	done := make(chan struct{})
	go func() { both.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-cut:
	case <-p.ended:
	}
	client.Close()
	server.Close()
	<-done
}

// hand writes to a server, and counts what is a command.
func (p *Proxy) hand(server net.Conn, data []byte) (int, error) {
	command := commandOf(data)
	if command == "" {
		return server.Write(data)
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	n, err := server.Write(data)
	if err == nil {
		p.reached[command]++
	}
	return n, err
}

type chunk struct {
	data []byte
	due  time.Time
}

// copy carries what is read in data from one connection to the other.
func (p *Proxy) copy(to, from net.Conn, in io.Reader, dead *atomic.Bool, write func(net.Conn, []byte) (int, error)) {
	chunks := make(chan chunk, 10_000)
	var late sync.WaitGroup
	late.Go(func() {
		defer to.Close()
		for c := range chunks {
			wait := time.NewTimer(time.Until(c.due))
			select {
			case <-wait.C:
			case <-p.ended:
			}
			wait.Stop()
			if _, err := write(to, c.data); err != nil {
				from.Close()
			}
		}
	})
	for {
		data := make([]byte, 32<<10)
		n, err := in.Read(data)
		if n > 0 && p.lost.Load() {
			dead.Store(true)
			p.dropped.Store(true)
		}
		if n > 0 && !dead.Load() {
			chunks <- chunk{data[:n], time.Now().Add(time.Duration(p.delay.Load()))}
		}
		if err != nil {
			break
		}
	}
	close(chunks)
	late.Wait()
}
