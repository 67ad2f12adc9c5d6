// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

// The subjects of the door's measurement.
const (
	BareHandler   = "bare handler"
	DoorCheap     = "door, cheap"
	DoorExpensive = "door, expensive"
	DoorRefused   = "door, refused"
)

// Doors returns them, the bare handler first.
func Doors() []string { return []string{BareHandler, DoorCheap, DoorExpensive, DoorRefused} }

// DoorRun is one measurement of the HTTP door over memory: calls of the handler, one after the other, without a
// connection, so that nothing but the door is between the two figures.
type DoorRun struct {
	Subject string
	For     time.Duration // after a warm-up of a quarter of it
}

const doorLinks = 1000

// Do measures. An answer other than the subject's status is a wrong one.
func (r DoorRun) Do() (Figures, error) { return withinOneHour(r.once) }

func (r DoorRun) once() (Figures, error) {
	var (
		status = http.StatusOK
		limit  = uint32(admitLimit)
		work   httpdoor.Work
	)
	switch r.Subject {
	case BareHandler, DoorCheap:
	case DoorExpensive:
		work.Expensive = true
	case DoorRefused:
		status, limit = http.StatusTooManyRequests, refuseLimit // which the warm-up uses up
	default:
		return Figures{}, fmt.Errorf("find door subject: there is none called %q", r.Subject)
	}
	handler := http.Handler(http.HandlerFunc(answer))
	requests, door, err := newDoor(memory.New(memory.Options{}), doorSetup{links: doorLinks, limit: limit, work: work})
	if err != nil {
		return Figures{}, err
	}
	if r.Subject != BareHandler {
		handler = door.Wrap(handler)
	}
	w := &response{header: http.Header{}}
	ask := func(request **http.Request) bool {
		clear(w.header)
		w.status = http.StatusOK
		handler.ServeHTTP(w, *request)
		return w.status == status
	}
	return figures(ask, requests, 1, true, r.For), nil
}

// answer is the handler: a status, a field and a few bytes.
func answer(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = jsonType
	w.Write(jsonBody)
}

var (
	jsonType = []string{"application/json"}
	jsonBody = []byte(`{"ok":true}`)
)

// doorSetup says what a door is measured with.
type doorSetup struct {
	links  int
	limit  uint32 // of a minute and of an hour
	work   httpdoor.Work
	before bool // BeforeHandler
}

// newDoor returns a door over a store, and a request of each link that it knows.
func newDoor(store signpost.Store, s doorSetup) ([]*http.Request, *httpdoor.Door, error) {
	links, err := newLinks(s.links, s.limit)
	if err != nil {
		return nil, nil, err
	}
	requests := make([]*http.Request, s.links)
	for i, l := range links.all {
		if requests[i], err = http.NewRequest(http.MethodGet, "/", nil); err != nil {
			return nil, nil, fmt.Errorf("make request: %w", err)
		}
		requests[i].Header.Set("Authorization", "Bearer "+l.Reveal())
	}
	door, err := httpdoor.New(signpost.New(store, signpost.Options{}), httpdoor.Options{
		Identify:      httpdoor.Links(links.registry, links.bound),
		Classify:      func(*http.Request) httpdoor.Work { return s.work },
		BeforeHandler: s.before,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make door: %w", err)
	}
	return requests, door, nil
}

// benchLinks are links, the registry that knows them, and what each is held to.
type benchLinks struct {
	all      []link.Link
	registry *memory.Links
	bound    signpost.Bound
}

// newLinks mints links that may do so much in a minute and in an hour.
func newLinks(n int, limit uint32) (*benchLinks, error) {
	bound, err := signpost.NewBound(signpost.MaxConcurrent, Windows(2, limit)...)
	if err != nil {
		return nil, fmt.Errorf("make bound: %w", err)
	}
	ls := &benchLinks{registry: memory.NewLinks(), bound: bound}
	for range n {
		l := link.Mint()
		if err := ls.registry.Add(context.Background(), link.NewRecord(l, link.Owner, "bench", time.Now())); err != nil {
			return nil, fmt.Errorf("add link: %w", err)
		}
		ls.all = append(ls.all, l)
	}
	return ls, nil
}

// charged returns what all of them were charged in this hour.
func (ls *benchLinks) charged(limiter *signpost.Limiter) (int, error) {
	sum := 0
	for _, l := range ls.all {
		record, err := ls.registry.Resolve(context.Background(), l.Hash())
		if err != nil {
			return 0, fmt.Errorf("find link: %w", err)
		}
		d, err := limiter.Peek(context.Background(), signpost.Request{Key: record.Key(), Bound: ls.bound})
		if err != nil {
			return 0, fmt.Errorf("ask what was charged: %w", err)
		}
		hour := d.Windows()[1]
		sum += int(hour.Used)
	}
	return sum, nil
}

// response has the faces of net/http's own, and keeps nothing but the fields and the status.
type response struct {
	http.Flusher
	http.Hijacker
	io.ReaderFrom
	header http.Header
	status int
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return len(p), nil }
