// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signposthq/signpost/bench"
)

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		v    verdict
		want string
	}{
		{verdict{what: "a", target: "at least 1.4", found: rounds{1.5, 1.3, 1.6}, format: "%.2f", atLeast: true, bar: 1.4},
			"| a | at least 1.4 | 1.50 (1.30..1.60) | met, rounds on both sides |\n"},
		{verdict{what: "b", target: "at least 1.4", found: rounds{1.39, 1.2}, format: "%.2f", atLeast: true, bar: 1.4},
			"| b | at least 1.4 | 1.29 (1.20..1.39) | not met |\n"},
		{verdict{what: "c", target: "at most 150", found: rounds{83, 84, 82}, format: "%.0f", bar: 150},
			"| c | at most 150 | 83 (82..84) | met |\n"},
		{verdict{what: "d", target: "at most 150", found: rounds{151}, format: "%.0f", bar: 150},
			"| d | at most 150 | 151 | not met |\n"},
	} {
		if got := test.v.row(); got != test.want {
			t.Errorf("%+v:\ngot  %swant %s", test.v, got, test.want)
		}
	}
}

// A ratio of two medians would compare rounds that never ran side by side.
func TestRatiosAreMadeRoundByRound(t *testing.T) {
	slowing := rounds{100, 200, 400}
	twice := rounds{200, 400, 800}
	if got := twice.over(slowing).text("%.1f"); got != "2.0 (2.0..2.0)" {
		t.Errorf("got %s, want 2.0 in every round", got)
	}
	if got := twice.less(slowing).text("%.0f"); got != "200 (100..400)" {
		t.Errorf("got %s", got)
	}
}

// What answers wrong may be quick, and is no rival.
func TestBestRival(t *testing.T) {
	found := map[cell]*cellFigures{}
	n := 0
	for _, l := range bench.Limiters() {
		f := &cellFigures{ns: rounds{100}}
		switch {
		case !l.Rival:
			f.ns = rounds{1}
		case n == 0:
			f.ns, f.wrong = rounds{2}, 1
		case n == 1:
			f.ns = rounds{50}
		}
		if l.Rival {
			n++
		}
		found[cell{admitted2, columns[0], l.Name}] = f
	}
	if name, best := bestRival(found, columns[0]); best.ns[0] != 50 {
		t.Errorf("the best rival is %s with %.0f ns, want the one with 50", name, best.ns[0])
	}
}

func TestDocument(t *testing.T) {
	name := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(name, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // twice, because the document is written again and again
		doc, err := openDocument(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := doc.write("new"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if want := "before\n" + beginMark + "\n\nnew\n" + endMark + "\nafter\n"; string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := os.WriteFile(name, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openDocument(name); err == nil || !strings.Contains(err.Error(), "find marks") {
		t.Errorf("without marks: %v, want an error that names them", err)
	}
}

// A name with a slip in it costs no half an hour.
func TestSectionsAreKnownBeforeAnyIsMeasured(t *testing.T) {
	err := run(t.Context(), []string{"-only", "memory,dsk", "-rounds", "1", "-memory-time", "1h"})
	if err == nil || !strings.Contains(err.Error(), `no section "dsk"`) {
		t.Errorf("%v, want an error that names the section", err)
	}
}

// The document of the repository is where the report goes.
func TestTheDocumentHasTheMarks(t *testing.T) {
	if _, err := openDocument("../../../docs/benchmarks.md"); err != nil {
		t.Error(err)
	}
}
