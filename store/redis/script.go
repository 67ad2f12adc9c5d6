// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
)

var (
	//go:embed lua/state.lua
	sharedSource string
	//go:embed lua/decide.lua
	decideSource string
	//go:embed lua/take.lua
	takeSource string
	//go:embed lua/takes.lua
	takesSource string
	//go:embed lua/read.lua
	readSource string
	//go:embed lua/renew.lua
	renewSource string
	//go:embed lua/settle.lua
	settleSource string
	//go:embed lua/reset.lua
	resetSource string
	//go:embed lua/try.lua
	trySource string
	//go:embed lua/check.lua
	checkSource string

	takeScript   = newScript(strings.Replace(takeSource, "DECIDE", decideSource, 1))
	takesScript  = newScript(strings.Replace(takesSource, "DECIDE", decideSource, 1))
	readScript   = newScript(readSource)
	renewScript  = newScript(renewSource)
	settleScript = newScript(settleSource)
	resetScript  = newScript(resetSource)
	checkScript  = newCheck(checkSource)
)

// slack is how long a key outlives its last window or lease: it has to be there for a clock that was set back.
const slack = time.Minute

// textOf returns the whole text of a script, with the constants in it. As words they would be variables, each of which takes a
// script a moment to set.
func textOf(source string) string {
	return strings.NewReplacer(
		"VERSION", fmt.Sprintf(`'\%d'`, stateVersion),
		"RECORD", "'>I4I5I4'",
		"FIRST", "2",
		"SIZE", fmt.Sprint(recordSize),
		"MAX_LENGTHS", fmt.Sprint(maxLengths),
		"LEASE_LIFE", fmt.Sprint(signpost.LeaseLife.Milliseconds()),
		"SLACK", fmt.Sprint(slack.Milliseconds()),
	).Replace(sharedSource + source)
}

// script is a program that runs beside the data. Its name is the hash of its text, so that two versions of this
// package can share a server.
type script struct{ text, sha string }

func newScript(source string) *script {
	text := textOf(source)
	sum := sha1.Sum([]byte(text)) // which is how a server names scripts
	return &script{text, hex.EncodeToString(sum[:])}
}

// newCheck returns a script that tells what a user may not do. It has no name, so that it is always sent whole, which a server must
// allow as well.
func newCheck(source string) *script { return &script{text: textOf(trySource + source)} }

const (
	// againTries is how often a script is sent to a Cluster that moves its keys just then, and againWait how long
	// it waits in between.
	againTries = 20
	againWait  = 20 * time.Millisecond
)

// send runs a script, in one round trip unless the server has forgotten it. It is sent again
// only upon the word of a server that it did not run.
func (sc *script) send(ctx context.Context, c rueidis.Client, keys, args []string) rueidis.RedisResult {
	for try := 1; ; try++ {
		var r rueidis.RedisResult
		var refused *rueidis.RedisError
		named, ok := sc.sha != "", false
		if named {
			r = c.Do(ctx, c.B().Evalsha().Sha1(sc.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
			refused, ok = rueidis.IsRedisErr(r.Error())
		}
		if !named || ok && refused.IsNoScript() {
			r = c.Do(ctx, c.B().Eval().Script(sc.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
			refused, ok = rueidis.IsRedisErr(r.Error())
		}
		if !ok || !refused.IsTryAgain() || try == againTries {
			return r
		}
		select {
		case <-time.After(againWait):
		case <-ctx.Done():
			return r
		}
	}
}
