// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Middleware is a whole program around the HTTP door: callers are known by a header that an
// authentication in front has set, searches are expensive, and the counts survive a restart.
//
//	go run ./examples/middleware
//	curl -i -H 'X-User: ada' http://127.0.0.1:8000/search
package main

import (
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/store/disk"
)

var bound = signpost.MustParseBound("5/min 100/hour 2 concurrent")

// whoIsThis names the caller. It runs after authentication: whoever can choose this header can choose a quota.
func whoIsThis(r *http.Request) (httpdoor.Caller, error) {
	user := r.Header.Get("X-User")
	if user == "" {
		return httpdoor.Caller{}, httpdoor.ErrNoCredential
	}
	return httpdoor.Caller{Key: signpost.KeyOf("user", user), Bound: bound, Name: user, Kind: "user"}, nil
}

// whatIsIt says what a request takes.
func whatIsIt(r *http.Request) httpdoor.Work {
	return httpdoor.Work{Expensive: strings.HasPrefix(r.URL.Path, "/search")}
}

func answer(w http.ResponseWriter, r *http.Request) {
	d, _ := httpdoor.FromContext(r.Context())
	fmt.Fprintf(w, "%d left this minute\n", d.Windows()[0].Remaining())
}

func main() {
	store, err := disk.Open("middleware-data", disk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	door, err := httpdoor.New(signpost.New(store, signpost.Options{}), httpdoor.Options{Identify: whoIsThis, Classify: whatIsIt})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "127.0.0.1:8000", Handler: door.Wrap(http.HandlerFunc(answer)), ReadHeaderTimeout: 10 * time.Second}
	log.Print(server.ListenAndServe())
}
