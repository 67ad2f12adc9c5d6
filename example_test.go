// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/memory"
)

func Example() {
	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})

	// Who is limited: the digest of a credential, not the credential.
	key := signpost.KeyOf("link", "the caller's credential")

	decision, err := limiter.Take(context.Background(), signpost.Request{Key: key, Bound: signpost.DefaultBound()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(decision.Admitted, decision.Windows()[0].Remaining())
	// Output: true 599
}

func ExampleLimiter_Take() {
	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	request := signpost.Request{
		Key:   signpost.KeyOf("link", "x"),
		Bound: signpost.MustParseBound("2/min 100/hour"),
	}
	// Replays and tests name the instant. Without one, it is now.
	noon := signpost.InstantOf(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC))

	for _, after := range []time.Duration{0, 10 * time.Second, 12400 * time.Millisecond, time.Minute} {
		request.At = noon.Add(after)
		decision, err := limiter.Take(context.Background(), request)
		if err != nil {
			log.Fatal(err)
		}
		if decision.Admitted {
			fmt.Printf("%v: admitted, %d left this minute\n", after, decision.Windows()[0].Remaining())
			continue
		}
		fmt.Printf("%v: refused, Retry-After: %d\n", after, decision.RetryAfterSeconds())
	}
	// Output:
	// 0s: admitted, 1 left this minute
	// 10s: admitted, 0 left this minute
	// 12.4s: refused, Retry-After: 48
	// 1m0s: admitted, 1 left this minute
}

func ExampleLimiter_Take_expensive() {
	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	request := signpost.Request{
		Key:       signpost.KeyOf("link", "x"),
		Bound:     signpost.MustParseBound("600/min 1 concurrent"),
		Expensive: true,
	}
	first, err := limiter.Take(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	second, err := limiter.Take(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Admitted, second.Admitted, second.ConcurrencyRefused)

	limiter.Release(first.Lease) // when the work is done; a lease that is forgotten ends after 30 s

	third, err := limiter.Take(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(third.Admitted)
	// Output:
	// true false true
	// true
}

func ExampleLimiter_Peek() {
	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	request := signpost.Request{
		Key:   signpost.KeyOf("link", "x"),
		Bound: signpost.MustParseBound("5/min"),
		At:    signpost.InstantOf(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)),
	}
	for range 3 {
		decision, err := limiter.Peek(context.Background(), request)
		if err != nil {
			log.Fatal(err)
		}
		minute := decision.Windows()[0]
		fmt.Println(decision.Admitted, minute.Used, minute.Reset().Time().Format(time.TimeOnly))
	}
	// Output:
	// true 0 12:01:00
	// true 0 12:01:00
	// true 0 12:01:00
}

func ExampleParseBound() {
	bound, err := signpost.ParseBound("1000/day, 5/90s")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bound)

	_, err = signpost.ParseBound("10/fortnight 60/min 50/hour")
	fmt.Println(err)
	// Output:
	// 5/90s 1000/day 10 concurrent
	// bound: "10/fortnight": unknown length "fortnight"; use sec, min, hour, day, week, or a length such as 90s, 15m, 12h, 7d
	// bound: window hour allows 50, less than the 60 of the shorter window minute, which could never be used
}

func ExampleNewBound() {
	bound, err := signpost.NewBound(4,
		signpost.Window{Len: time.Minute, Limit: 60},
		signpost.Window{Len: 7 * 24 * time.Hour, Limit: 100_000},
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bound)
	// Output: 60/min 100000/604800s 4 concurrent
}

// Judge is the specification that every store follows: a function of what is stored and what is asked.
func ExampleJudge() {
	now := signpost.InstantOf(time.Date(2026, 1, 15, 12, 34, 56, 0, time.UTC))
	raw := signpost.Raw{Now: now}
	raw.Windows[0] = signpost.RawWindow{Start: now.Add(-56 * time.Second), Used: 58} // the minute
	raw.Windows[1] = signpost.RawWindow{Start: now.Add(-34*time.Minute - 56*time.Second), Used: 995}

	decision := signpost.Judge(&raw, &signpost.Request{
		Key:   signpost.KeyOf("link", "x"),
		Bound: signpost.StrangerBound(), // 60/min 1000/hour
		Cost:  6,
	})
	for _, window := range decision.Windows() {
		fmt.Println(window.Name(), window.Used, "of", window.Limit, "refused:", window.Refused)
	}
	fmt.Println(decision.RetryAfter())
	// Output:
	// minute 58 of 60 refused: true
	// hour 995 of 1000 refused: true
	// 25m4s
}
