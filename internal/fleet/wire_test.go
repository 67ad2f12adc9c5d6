// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

// What the test and its worker processes say to each other. Both are the same binary, so values without pointers travel as the
// bytes that they are, private fields and all.

// setup is what a worker is told first.
type setup struct {
	URL   string
	Guard bool // wrap the store as the binary does
}

// call is one call into a worker, and reply its answer.
type call struct {
	ID      uint64
	Op      string
	Request []byte // a signpost.Request
	Lease   []byte // a signpost.Lease
	Key     []byte // a signpost.Key
	At      signpost.Instant
	Counts  []signpost.Count
	Timeout time.Duration // 0: none; below 0: the caller's context has ended

	Load *load
	Hash link.Hash
	For  time.Duration
}

type reply struct {
	ID       uint64
	Err      *failure
	Decision []byte // a signpost.Decision
	Lease    []byte
	Leases   [][]byte
	At       signpost.Instant
	Counts   []signpost.Count
	Text     string

	Seen  *seen
	When  int64 // by the clock that all processes share
	Calls int
	Wall  time.Time // the worker's own clock
}

func bytesOf[T any](v *T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))...)
}

func valueOf[T any](b []byte) (v T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), b)
	return v
}

func TestWireTypesHoldNoPointers(t *testing.T) {
	var flat func(reflect.Type) bool
	flat = func(x reflect.Type) bool {
		switch x.Kind() {
		case reflect.Array:
			return flat(x.Elem())
		case reflect.Struct:
			for i := range x.NumField() {
				if !flat(x.Field(i).Type) {
					return false
				}
			}
			return true
		default:
			return x.Kind() < reflect.Array
		}
	}
	for _, x := range []reflect.Type{reflect.TypeFor[signpost.Request](), reflect.TypeFor[signpost.Decision](), reflect.TypeFor[signpost.Lease](), reflect.TypeFor[signpost.Key]()} {
		if !flat(x) {
			t.Errorf("%v holds a pointer, and cannot go to another process as bytes", x)
		}
	}
}

// failure is an error of a worker that errors.Is still knows.
type failure struct {
	Text string
	Is   []int
}

var known = []error{
	signpost.ErrUsage, signpost.ErrClosed, signpost.ErrLeaseGone, signpost.ErrUnreachable, signpost.ErrStoreAuth, errors.ErrUnsupported,
	context.Canceled, context.DeadlineExceeded, link.ErrUnknown, link.ErrUnavailable,
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for i, k := range known {
		if errors.Is(err, k) {
			f.Is = append(f.Is, i)
		}
	}
	return f
}

func (f *failure) Error() string { return f.Text }

func (f *failure) Unwrap() (all []error) {
	for _, i := range f.Is {
		all = append(all, known[i])
	}
	return all
}

// err returns the error as one, or nil.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	return f
}
