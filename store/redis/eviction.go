// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"strings"
)

// Eviction returns what the server does when its memory is full, such as "noeviction" or "allkeys-lru", or "" if it does not
// say: the user must be allowed INFO. Any policy but noeviction forgets counts, and so hands out quota again. Of a
// Cluster one node is asked. It takes as long as ctx allows, and a second at most.
func (s *Store) Eviction(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	c := s.client.Load()
	if c == nil || !s.nodes.alone.calm() && s.nodes.slots.Load() == nil {
		return "" // no connection is there yet
	}
	info, err := (*c).Do(ctx, (*c).B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(info, "maxmemory_policy:")
	policy, _, _ := strings.Cut(after, "\r")
	return policy
}
