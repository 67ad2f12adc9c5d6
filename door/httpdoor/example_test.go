// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/store/memory"
)

// A door around a handler, with an Identify for API keys that the application knows.
func Example() {
	users := map[string]string{"key of alice": "alice"}
	bound := signpost.MustParseBound("2/366d")

	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	door, err := httpdoor.New(limiter, httpdoor.Options{Identify: func(r *http.Request) (httpdoor.Caller, error) {
		key := r.Header.Get("X-API-Key")
		user, ok := users[key]
		switch {
		case key == "":
			return httpdoor.Caller{}, httpdoor.ErrNoCredential
		case !ok:
			return httpdoor.Caller{}, httpdoor.ErrUnknownCredential
		}
		return httpdoor.Caller{Key: signpost.KeyOf("user", user), Bound: bound, Name: user}, nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	api := door.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))

	for _, key := range []string{"key of alice", "key of alice", "key of alice", "a guess"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
	// 401
}

// Strangers are held to a bound by their address, in a memory of their own.
func ExampleNewByAddress() {
	door, err := httpdoor.NewByAddress(httpdoor.Addresses{}, httpdoor.Options{})
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	door.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header()["X-RateLimit-Limit"], w.Header()["X-RateLimit-Remaining"])
	// Output: 404 [60] [59]
}

// The handler sees the decision that let it run.
func ExampleFromContext() {
	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	door, err := httpdoor.New(limiter, httpdoor.Options{
		Identify: func(*http.Request) (httpdoor.Caller, error) {
			return httpdoor.Caller{Key: signpost.KeyOf("user", "alice"), Bound: signpost.MustParseBound("100/hour")}, nil
		},
		Classify: func(r *http.Request) httpdoor.Work {
			if r.URL.Path == "/report" {
				return httpdoor.Work{Expensive: true, Cost: 20}
			}
			return httpdoor.Work{}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	report := door.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, ok := httpdoor.FromContext(r.Context()); ok {
			fmt.Println("left this hour:", d.Windows()[0].Remaining())
		}
	}))
	report.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/report", nil))
	// Output: left this hour: 80
}
