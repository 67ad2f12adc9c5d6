// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// sampleExpensive is what costs something in the sample: a search, and what changes a note.
var sampleExpensive = []string{"/recall", "POST /remember/{note}", "POST /edit/{note}"}

const (
	sampleNotes  = 100 // the most that are kept
	sampleAgents = `# A notes service, behind Signpost

- GET /read/{note}: one note
- GET /recall?q=words: the notes that hold the words
- POST /remember/{note}: a new note; the body is its markdown
- POST /edit/{note}: new markdown for a note that is there
- GET /.well-known/limits: what you are held to
`
	sampleWelcome = `# Welcome

This note is served by the sample that "signpost serve" brings along.
Start it with --upstream URL to stand in front of your own service.
`
)

// sample is the service behind the door when no upstream is configured: notes in memory,
// just enough to try every rule on.
type sample struct {
	shape func() Shape

	mu    sync.Mutex
	notes map[string]string
}

func newSample(shape func() Shape) http.Handler {
	s := &sample{shape: shape, notes: map[string]string{"welcome": sampleWelcome}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.agents)
	mux.HandleFunc("GET /AGENTS.md", s.agents)
	mux.HandleFunc("GET /read/{note}", s.read)
	mux.HandleFunc("GET /recall", s.recall)
	mux.HandleFunc("POST /remember/{note}", s.remember)
	mux.HandleFunc("POST /edit/{note}", s.edit)
	return mux
}

// agents is the same for everybody, so it says that others may cache it.
func (s *sample) agents(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=60")
	io.WriteString(w, sampleAgents)
}

func (s *sample) read(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	text, ok := s.notes[r.PathValue("note")]
	s.mu.Unlock()
	if !ok {
		sampleError(w, http.StatusNotFound, "no such note; see /recall?q=")
		return
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	io.WriteString(w, text)
}

func (s *sample) recall(w http.ResponseWriter, r *http.Request) {
	words := strings.Fields(strings.ToLower(r.URL.Query().Get("q")))
	s.mu.Lock()
	found := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.notes)) {
		text := strings.ToLower(name + " " + s.notes[name])
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			found = append(found, name)
		}
	}
	s.mu.Unlock()
	sampleJSON(w, http.StatusOK, map[string]any{"notes": found})
}

func (s *sample) remember(w http.ResponseWriter, r *http.Request) { s.write(w, r, false) }

func (s *sample) edit(w http.ResponseWriter, r *http.Request) { s.write(w, r, true) }

func (s *sample) write(w http.ResponseWriter, r *http.Request, exists bool) {
	name := r.PathValue("note")
	body, err := io.ReadAll(r.Body) // the door has bounded it
	if err != nil {
		return
	}
	if fault := s.shape().check(string(body)); fault != "" {
		sampleError(w, http.StatusUnprocessableEntity, fault)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.notes[name]
	switch {
	case exists && !known:
		sampleError(w, http.StatusNotFound, "no such note; POST /remember/{note} makes one")
	case !exists && known:
		sampleError(w, http.StatusConflict, "the note is there already; POST /edit/{note} changes it")
	case !known && (len(s.notes) >= sampleNotes || len(name) > 100):
		sampleError(w, http.StatusUnprocessableEntity, fmt.Sprintf("the sample keeps %d notes, with names of up to 100 bytes", sampleNotes))
	default:
		s.notes[name] = string(body)
		sampleJSON(w, map[bool]int{true: http.StatusOK, false: http.StatusCreated}[known], map[string]any{"note": name})
	}
}

// check returns which bound a note breaks, or "". Blocks are what blank lines part; relations
// are [[names]] of other notes.
func (s Shape) check(markdown string) string {
	blocks := 0
	for block := range strings.SplitSeq(markdown, "\n\n") {
		if strings.TrimSpace(block) != "" {
			blocks++
		}
	}
	switch {
	case !utf8.ValidString(markdown):
		return "the body is not UTF-8"
	case utf8.RuneCountInString(markdown) > s.Markdown:
		return fmt.Sprintf("a note has at most %d characters", s.Markdown)
	case strings.Count(markdown, "[[") > s.Relations:
		return fmt.Sprintf("a note has at most %d relations", s.Relations)
	case blocks > s.Blocks:
		return fmt.Sprintf("a note has at most %d blocks", s.Blocks)
	}
	return ""
}

func sampleJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func sampleError(w http.ResponseWriter, status int, detail string) {
	sampleJSON(w, status, map[string]any{"error": detail})
}
