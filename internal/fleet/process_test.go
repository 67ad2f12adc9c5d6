// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

// liveness is far above what anything here takes, and far below what a hang does.
const liveness = time.Minute

// process is a worker process, and the [signpost.Store] that it has opened.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Closer
	// step makes the clock wrong by something else; nil if it is right.
	step func(skew time.Duration) error

	mu      sync.Mutex
	calls   *gob.Encoder
	last    uint64
	waiting map[uint64]chan reply
	gone    chan struct{} // closed when it says nothing more
}

var _ interface {
	signpost.Store
	signpost.Renewer
	signpost.Inspector
	signpost.Resetter
	signpost.Settler
	signpost.Slicer
} = (*process)(nil)

// start starts a worker whose clock is wrong by skew. It ends with the test.
func start(t testing.TB, o setup, skew time.Duration) *process {
	t.Helper()
	if skew != 0 && !skews {
		t.Skip("a wrong clock can be made on amd64 only")
	}
	p := &process{t: t, cmd: exec.Command(os.Args[0], workerArg), waiting: map[uint64]chan reply{}, gone: make(chan struct{})}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.step, err = startSkewed(p.cmd, skew); err != nil {
		t.Fatalf("start a worker whose clock is wrong by %v: %v", skew, err)
	}
	p.in, p.calls = in, gob.NewEncoder(in)
	go func() {
		defer close(p.gone)
		for replies := gob.NewDecoder(out); ; {
			var r reply
			if err := replies.Decode(&r); err != nil {
				return
			}
			p.mu.Lock()
			p.waiting[r.ID] <- r
			delete(p.waiting, r.ID)
			p.mu.Unlock()
		}
	}()
	t.Cleanup(p.kill)
	if err := p.calls.Encode(o); err != nil {
		t.Fatalf("tell the worker what to open: %v", err)
	}
	p.wantSkew(skew)
	return p
}

// wantSkew fails the test unless the clock of the process is wrong by skew.
func (p *process) wantSkew(skew time.Duration) {
	p.t.Helper()
	r, err := p.call(p.t.Context(), call{Op: "clock"})
	if err != nil {
		p.t.Fatalf("the worker did not open its store: %v", err)
	}
	if off := time.Until(r.Wall) - skew; off > liveness || off < -liveness {
		p.t.Fatalf("the clock of the worker is wrong by %v, want %v", off+skew, skew)
	}
}

// jump makes the clocks that are wrong step to and fro until the channel is closed.
func jump(t testing.TB, all []*process, ended <-chan struct{}) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ended:
			return
		}
		if p := all[i%len(all)]; p.step != nil {
			if err := p.step(wrong[i*5%len(wrong)]); err != nil {
				t.Errorf("make a clock step: %v", err)
				return
			}
		}
	}
}

func TestClocksStep(t *testing.T) {
	p := start(t, setup{URL: "redis://127.0.0.1:1"}, wrong[3])
	for _, skew := range wrong {
		if err := p.step(skew); err != nil {
			t.Fatal(err)
		}
		p.wantSkew(skew)
	}
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.gone
	p.in.Close()
	p.cmd.Wait()
}

var errGone = errors.New("the process has ended")

// call has the worker do something. The worker is told how long the caller waits, and nothing else of its context.
func (p *process) call(ctx context.Context, c call) (reply, error) {
	if deadline, ok := ctx.Deadline(); ok {
		c.Timeout = time.Until(deadline)
	}
	if ctx.Err() != nil {
		c.Timeout = -1
	}
	answer := make(chan reply, 1)
	p.mu.Lock()
	p.last++
	c.ID = p.last
	p.waiting[c.ID] = answer
	err := p.calls.Encode(c)
	p.mu.Unlock()
	if err != nil {
		return reply{}, errGone
	}
	select {
	case r := <-answer:
		return r, r.Err.err()
	case <-p.gone:
		return reply{}, errGone
	case <-time.After(liveness):
		return reply{}, errors.New("the process does not answer")
	}
}

func (p *process) decide(ctx context.Context, op string, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	r, err := p.call(ctx, call{Op: op, Request: bytesOf(&q)})
	if err != nil {
		return signpost.Decision{}, signpost.Commit{}, err
	}
	return valueOf[signpost.Decision](r.Decision), signpost.Commit{}, nil
}

func (p *process) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	return p.decide(ctx, "take", q)
}

func (p *process) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	return p.decide(ctx, "peek", q)
}

func (p *process) Release(l signpost.Lease) {
	if _, err := p.call(context.Background(), call{Op: "release", Lease: bytesOf(&l)}); err != nil && !errors.Is(err, errGone) {
		p.t.Errorf("release: %v", err)
	}
}

func (p *process) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	r, err := p.call(ctx, call{Op: "renew", Lease: bytesOf(&l), At: at})
	if err != nil {
		return signpost.Lease{}, err
	}
	return valueOf[signpost.Lease](r.Lease), nil
}

func (p *process) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (signpost.Inspection, error) {
	r, err := p.call(ctx, call{Op: "inspect", Key: bytesOf(&k), At: at})
	if err != nil {
		return signpost.Inspection{}, err
	}
	in := signpost.Inspection{At: r.At, Counts: r.Counts}
	for _, l := range r.Leases {
		in.Leases = append(in.Leases, valueOf[signpost.Lease](l))
	}
	return in, nil
}

func (p *process) Reset(ctx context.Context, k signpost.Key) error {
	_, err := p.call(ctx, call{Op: "reset", Key: bytesOf(&k)})
	return err
}

func (p *process) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	_, err := p.call(ctx, call{Op: "settle", Key: bytesOf(&k), At: at, Counts: counts})
	return err
}

func (p *process) Slice(k signpost.Key) string {
	r, err := p.call(context.Background(), call{Op: "slice", Key: bytesOf(&k)})
	if err != nil && !errors.Is(err, errGone) {
		p.t.Errorf("slice: %v", err)
	}
	return r.Text
}

func (p *process) Close() error {
	_, err := p.call(context.Background(), call{Op: "close"})
	return err
}
