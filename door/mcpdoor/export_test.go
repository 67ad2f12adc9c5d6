// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import "time"

// SetBodyTime sets how long a body may take to arrive.
func (p *Proxy) SetBodyTime(d time.Duration) { p.bodyTime = d }
