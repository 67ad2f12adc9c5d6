// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import "time"

// SetBodyTime sets how long a body may take to arrive.
func (p *Proxy) SetBodyTime(d time.Duration) { p.bodyTime = d }

// SetLeaseLife sets how long the lease of a call is taken to last that was cancelled.
func (p *Proxy) SetLeaseLife(d time.Duration) { p.leaseLife = d }

// IsStopping reports whether the proxy ends the streams on which the server speaks unasked, as soon as nothing else is under way.
func (p *Proxy) IsStopping() bool {
	p.listening.mu.Lock()
	defer p.listening.mu.Unlock()
	return p.listening.stopping
}
