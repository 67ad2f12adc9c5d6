// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// FuzzParse holds the parser against encoding/json: what passes means the same to both.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`,
		` [ {"jsonrpc":"2.0","id":"x","result":{}} , {"jsonrpc":"2.0","method":"notifications/x"} ] `,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `[[]]`, `{"METHOD":1}`, `{"jsonrpc":"2.0","id":{"a":[1]},"method":"p","params":[[]]}`, "\xff", ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		messages, batch, err := parse(body)
		if err != nil {
			if f, ok := err.(*fault); !ok || f.code == 0 || f.detail == "" || f.id != nil && !json.Valid(f.id) {
				t.Fatalf("fault %#v", err)
			}
			return
		}
		if len(messages) == 0 || !batch && len(messages) != 1 {
			t.Fatalf("%d messages, batch %v", len(messages), batch)
		}
		for _, m := range messages {
			var other struct {
				ID     json.RawMessage
				Method string
				Params struct{ Name, URI any }
			}
			if err := json.Unmarshal(m.raw, &other); err != nil {
				t.Fatalf("raw %q: %v", m.raw, err)
			}
			if name, _ := other.Params.Name.(string); other.Method != m.method || name != m.name {
				t.Fatalf("%q is read as %q %q", m.raw, m.method, m.name)
			}
			if m.id != nil && string(other.ID) != string(m.id) {
				t.Fatalf("%q has the id %q", m.raw, m.id)
			}
		}
	})
}

// The body is read where it lies: what a message costs does not grow with what it carries.
func TestParseCopiesNothingOfWhatACallCarries(t *testing.T) {
	cost := func(carried string) int64 {
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":` + carried + `}}}`)
		if m, _, err := parse(body); err != nil || m[0].name != "a" {
			t.Fatalf("%v %v", m, err)
		}
		const runs = 3
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			parse(body)
		}
		runtime.ReadMemStats(&after)
		return int64(after.TotalAlloc-before.TotalAlloc) / runs
	}
	small := cost(`""`)
	for _, carried := range []string{`"` + strings.Repeat("x", 1<<18) + `"`, "[" + strings.Repeat("1,", 1<<17) + "1]", "[" + strings.Repeat(`{"y":"z"},`, 1<<15) + "{}]"} {
		if large := cost(carried); large > small+int64(len(carried))/8 {
			t.Errorf("%d bytes for %.10s..., %d for nothing", large, carried, small)
		}
	}
}

// What is held of a body grows with what was sent of it, not with what was declared.
func TestReadAllHoldsWhatWasSent(t *testing.T) {
	const most = 1 << 20
	begun, err := readAll(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)), most, most)
	if err == nil || string(begun) != "{" || cap(begun) > 8192 {
		t.Errorf("%q in %d bytes, %v", begun, cap(begun), err)
	}
	for _, size := range []int{0, 1, 4096, 4097, 100_000, most, most + 1, 2 * most} {
		sent := strings.Repeat("x", size)
		for _, declared := range []int64{-1, int64(size)} {
			if declared > most {
				continue // refused before
			}
			got, err := readAll(strings.NewReader(sent), declared, most)
			if err != nil || string(got) != sent[:min(size, most+1)] || cap(got) > most+8192 {
				t.Errorf("%d bytes, declared %d: %d in %d, %v", size, declared, len(got), cap(got), err)
			}
		}
	}
}

// Reading a string takes time by its length, and not by its length times its escapes: 16 MiB would take minutes.
func TestManyEscapes(t *testing.T) {
	for _, escape := range []string{`\n`, `\"`, `\\`} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":"` + strings.Repeat(escape, 8<<20) + `"}}`
		done := make(chan error, 1)
		go func() {
			_, _, err := parse([]byte(body))
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", escape, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: not read in 30 s", escape)
		}
	}
}
