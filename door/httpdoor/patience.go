// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"context"
	"sync"
	"time"
)

// patience is a context that ends after a while. Unlike context.WithTimeout it starts a timer only for somebody who
// waits for that, which a registry that has the link in memory does not.
type patience struct {
	context.Context
	until time.Time

	mu     sync.Mutex
	timed  context.Context // nil until somebody waits
	cancel context.CancelFunc
}

func newPatience(ctx context.Context, d time.Duration) *patience {
	return &patience{Context: ctx, until: time.Now().Add(d)}
}

func (p *patience) Deadline() (time.Time, bool) {
	if sooner, ok := p.Context.Deadline(); ok && sooner.Before(p.until) {
		return sooner, true
	}
	return p.until, true
}

func (p *patience) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed == nil {
		p.timed, p.cancel = context.WithDeadline(p.Context, p.until)
	}
	return p.timed.Done()
}

func (p *patience) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed != nil {
		return p.timed.Err()
	}
	if err := p.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(p.until) {
		return context.DeadlineExceeded
	}
	return nil
}

// end stops the timer, if there is one.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
}
