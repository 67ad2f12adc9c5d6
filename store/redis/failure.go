// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
)

// passing are the codes of errors that a good server answers for a while.
var passing = map[string]bool{
	"LOADING": true, "READONLY": true, "OOM": true, "CLUSTERDOWN": true, "MASTERDOWN": true, "TRYAGAIN": true, "BUSY": true,
	"MISCONF": true, "NOREPLICAS": true, "MOVED": true, "ASK": true, "UNBLOCKED": true,
}

// full is what a server says that has as many clients as it takes. It has no code.
const full = "max number of clients"

// untouched are the codes of errors that a server answers before a script writes anything: either to the script as a whole, or to the
// first write in it.
var untouched = map[string]bool{
	"LOADING": true, "READONLY": true, "OOM": true, "CLUSTERDOWN": true, "MASTERDOWN": true, "TRYAGAIN": true, "BUSY": true,
	"MISCONF": true, "NOREPLICAS": true, "MOVED": true, "ASK": true, "NOAUTH": true, "WRONGPASS": true, "NOSCRIPT": true,
}

// wrongPassword are the codes of errors that say so, or that there is none.
var wrongPassword = map[string]bool{"WRONGPASS": true, "NOAUTH": true}

// notCharged says of an error that nothing was charged, to those who ask and not in its words.
func notCharged(err error) error { return notChargedError{err} }

type notChargedError struct{ error }

// Unwrap lets errors.Is and errors.As see both.
func (e notChargedError) Unwrap() []error { return []error{e.error, signpost.ErrNotCharged} }

// codeOf returns the first word of an error that a server answered, or that a command of a script met. Redis 6, KeyDB and
// Dragonfly put the latter at the end of an error of the script:
//
//	Error running script (call to f_1028a5...): @user_script:4: @user_script: 4: -READONLY You can't write ...
func codeOf(err *rueidis.RedisError) string {
	const place = "@user_script:"
	text := err.Error()
	if at := strings.LastIndex(text, place); at >= 0 && strings.HasPrefix(text, "Error running script") {
		_, met, _ := strings.Cut(text[at+len(place):], ": ")
		text = strings.TrimPrefix(met, "-")
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}

// explain returns an error of the client in the words of this module.
func (x *connection) explain(ctx context.Context, err error) error {
	explained := inWords(ctx, err)
	refused, ok := rueidis.IsRedisErr(err)
	if ok && wrongPassword[codeOf(refused)] && x.option.Sentinel.MasterSet != "" { // which of them said it, the client does not tell
		explained = fmt.Errorf("%w, and that of the Sentinels, which is another", explained)
	}
	var dial *net.OpError
	if ok && untouched[codeOf(refused)] || errors.As(err, &dial) && dial.Op == "dial" {
		return notCharged(explained)
	}
	return explained
}

func inWords(ctx context.Context, err error) error {
	if refused, ok := rueidis.IsRedisErr(err); ok {
		text, _, _ := strings.Cut(refused.Error(), ". ") // some go on for a page
		text = strings.TrimSuffix(text, ".")
		switch code := codeOf(refused); {
		case wrongPassword[code]:
			return fmt.Errorf("%w: %s; check the user and the password", signpost.ErrStoreAuth, text)
		// What a script may not do: the words are those of Redis 7.0, and of Redis since 7.2 and Valkey.
		case code == "NOPERM", strings.Contains(text, "The user executing the script"), strings.Contains(text, "ACL failure in script"):
			return fmt.Errorf("%w: %s; see docs/fleet.md for what the user must be allowed", signpost.ErrStoreAuth, text)
		case code == "DENIED":
			return fmt.Errorf("%w: %s; give the server a password", signpost.ErrStoreAuth, text)
		case strings.HasPrefix(text, "unknown command 'SENTINEL'"):
			return fmt.Errorf("server is no Sentinel; leave master_set out of the URL: %w", err)
		case strings.HasPrefix(text, "unknown command 'EVAL"):
			return fmt.Errorf("server runs no scripts; if it is a Sentinel, add master_set to the URL: %w", err)
		case strings.HasPrefix(text, "No such master"):
			return fmt.Errorf("master_set in the URL names no master that the Sentinel knows: %w", err)
		case code == "WRONGTYPE":
			return fmt.Errorf("%w: a key of ours is not of our type; choose a prefix that nobody else uses: %w", signpost.ErrSpoilt, err)
		case code == "STATE":
			return fmt.Errorf("%w: server answered: %w", signpost.ErrSpoilt, err)
		}
		return fmt.Errorf("server answered: %w", err)
	}
	if rueidis.IsRedisNil(err) {
		return errors.New("reply is malformed: nil")
	}
	if errors.Is(err, rueidis.ErrNoCache) {
		return fmt.Errorf("%w: it must allow CLIENT TRACKING and speak RESP3; see docs/fleet.md", signpost.ErrStoreAuth)
	}
	if distrusted(err) {
		return fmt.Errorf("%w: TLS: %w", signpost.ErrUnreachable, err)
	}
	var network net.Error
	switch ended := ctx.Err(); {
	case errors.Is(err, signpost.ErrClosed), errors.Is(err, rueidis.ErrClosing):
		return signpost.ErrClosed
	case ended != nil:
		return ended
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%w: no connection in %v: %w", signpost.ErrUnreachable, dialTimeout, err)
	}
	return fmt.Errorf("%w: %w", signpost.ErrUnreachable, err)
}

// lasting reports whether an error, as explain returns it, will be there tomorrow: no store can be opened on such a server.
func lasting(err error) bool {
	if errors.Is(err, signpost.ErrStoreAuth) {
		return true
	}
	var refused *rueidis.RedisError
	return errors.As(err, &refused) && !passing[codeOf(refused)] && !strings.Contains(refused.Error(), full) || distrusted(err)
}

// distrusted reports whether an error says that the server showed a certificate that is not to be trusted.
func distrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}
