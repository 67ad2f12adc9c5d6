// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The rules of this repository that a machine can hold. Each failure says where, and what to do.

const modulePath = "github.com/signposthq/signpost"

// source is one parsed file.
type source struct {
	path string // from the root, with slashes
	dir  string // "." for the root
	test bool   // a _test.go file
	made bool   // by a generator, under its own head
	text []byte
	file *ast.File
	fset *token.FileSet
}

// at says where a node is.
func (s *source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

// sources returns every Go file of the repository, those of other modules in it included.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := readSources()
	if err != nil {
		t.Fatalf("read the sources: %v", err)
	}
	if len(all) < 20 {
		t.Fatalf("found %d Go files; is this the root of the repository?", len(all))
	}
	return all
}

var readSources = sync.OnceValues(func() (all []*source, _ error) {
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s := &source{path: filepath.ToSlash(name), text: text, fset: token.NewFileSet()}
		s.dir, s.test = path.Dir(s.path), strings.HasSuffix(name, "_test.go")
		if s.file, err = parser.ParseFile(s.fset, s.path, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		s.made = ast.IsGenerated(s.file)
		all = append(all, s)
		return nil
	})
	return all, err
})

// under reports whether a directory is one of those, or in one of them.
func under(dir string, tops ...string) bool {
	for _, top := range tops {
		if dir == top || strings.HasPrefix(dir, top+"/") {
			return true
		}
	}
	return false
}

// level is where a package stands. Imports go to the same level or down.
func level(dir string) int {
	switch {
	case dir == ".":
		return 0
	case under(dir, "internal/clock", "internal/state"):
		return 1 // what stores are made of
	case under(dir, "store", "failopen", "link"):
		return 2
	case under(dir, "door", "internal/hold", "internal/once"): // and what doors are made of
		return 3
	case under(dir, "internal"):
		return 4 // what the daemon is made of
	case under(dir, "cmd", "bench", "examples"):
		return 5
	}
	return -1
}

func TestImportsPointOneWay(t *testing.T) {
	for _, s := range sources(t) {
		from := level(s.dir)
		if from < 0 {
			t.Errorf("%s: no level is known for package %s; give it one in house_test.go", s.path, s.dir)
			continue
		}
		if s.test {
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			dir, ours := strings.CutPrefix(name, modulePath)
			dir = path.Clean("." + dir)
			switch {
			case !ours && s.dir == "." && strings.Contains(name, "."):
				t.Errorf("%s imports %s; the root package imports the standard library only", s.at(spec), name)
			case ours && level(dir) > from:
				t.Errorf("%s imports %s; imports go root <- store, failopen, link <- door <- internal <- cmd", s.at(spec), name)
			case ours && isSuite(dir) && !isSuite(s.dir) && s.dir != "bench":
				t.Errorf("%s imports %s; a test suite is for tests", s.at(spec), name)
			}
		}
	}
}

// isSuite reports whether a package is a conformance suite, such as store/storetest.
func isSuite(dir string) bool { return dir != "." && strings.HasSuffix(path.Base(dir), "test") }

// The instant of a take is data. Under the rules nobody looks at a clock, or waits for one.
func TestNoClockUnderTheRules(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}
	allowed := map[string][]string{
		"limiter.go": {"Now", "Since"}, // how long a store took, for who observes
	}
	for _, s := range sources(t) {
		if s.test || !(s.dir == "." || s.dir == "internal/state") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if name, ok := selected(n, "time"); ok && slices.Contains(clock, name) && !slices.Contains(allowed[s.path], name) {
				t.Errorf("%s: time.%s; take the instant as an argument", s.at(n), name)
			}
			return true
		})
	}
}

// selected returns the name that is taken from a package here.
func selected(n ast.Node, pkg string) (name string, ok bool) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	id, ok := sel.X.(*ast.Ident)
	return sel.Sel.Name, ok && id.Name == pkg
}

// head is how a file begins, in Go and in TypeScript.
const head = "// SPDX-FileCopyrightText: 2026 The Signpost Authors\n// SPDX-License-Identifier: Apache-2.0\n\n"

func TestFileHeads(t *testing.T) {
	for _, s := range sources(t) {
		if !s.made && !strings.HasPrefix(string(s.text), head) {
			t.Errorf("%s does not begin with the licence and an empty line:\n%s", s.path, head)
		}
	}
}

func TestFileHeadsInTypeScript(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "dist"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".ts":
			return nil
		}
		found++
		text, err := os.ReadFile(name)
		if err == nil && !strings.HasPrefix(string(text), head) {
			t.Errorf("%s does not begin with the licence and an empty line:\n%s", name, head)
		}
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("looked at %d files: %v", found, err)
	}
}

func TestFilesCanBeReadInOneSitting(t *testing.T) {
	for _, s := range sources(t) {
		if lines := bytes.Count(s.text, []byte("\n")); !s.made && lines > 700 {
			t.Errorf("%s has %d lines; split it, one idea a file, at most 700", s.path, lines)
		}
	}
}

func TestPackageComments(t *testing.T) {
	has := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			has[s.dir] = has[s.dir] || s.file.Doc != nil
		}
		if s.file.Doc != nil && strings.Contains(s.file.Doc.Text(), "SPDX") {
			t.Errorf("%s: the licence became the package comment; leave a line free below it", s.path)
		}
	}
	for dir, ok := range has {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// What others can import says what it does, in units and ranges.
func TestExportedNamesHaveComments(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.made || s.file.Name.Name == "main" || under(s.dir, "internal", "bench") {
			continue
		}
		want := func(n ast.Node, name string, comments ...*ast.CommentGroup) {
			if !ast.IsExported(name) {
				return
			}
			for _, c := range comments {
				if c != nil {
					return
				}
			}
			t.Errorf("%s: %s has no comment", s.at(n), name)
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || ast.IsExported(receiver(d)) {
					want(d, d.Name.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch sp := spec.(type) {
					case *ast.TypeSpec:
						want(sp, sp.Name.Name, sp.Doc, d.Doc)
					case *ast.ValueSpec:
						for _, name := range sp.Names {
							want(sp, name.Name, sp.Doc, sp.Comment, d.Doc)
						}
					}
				}
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// Tests wait for what they wait for, and none stands aside without a word. A sleep is fine where time is not real
// (files that use testing/synctest), and between two looks of a loop that polls.
func TestTestsNeitherSleepNorSkipSilently(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test && !isSuite(s.dir) {
			continue
		}
		bubble := slices.ContainsFunc(s.file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"testing/synctest"` })
		var polls []ast.Stmt
		ast.Inspect(s.file, func(n ast.Node) bool {
			if loop, ok := n.(*ast.ForStmt); ok && loop.Cond != nil { // for !done() { ...; sleep } polls
				polls = append(polls, loop.Post)
				if _, counts := loop.Post.(*ast.IncDecStmt); !counts {
					polls = append(polls, loop.Body.List...)
				}
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			inPoll := slices.ContainsFunc(polls, func(p ast.Stmt) bool { return isCall(p, call) })
			if name, ok := selected(call.Fun, "time"); ok && name == "Sleep" && !bubble && !inPoll {
				t.Errorf("%s: time.Sleep in a test; use testing/synctest, or poll a condition with a bound", s.at(n))
			}
			if name, ok := selected(call.Fun, "t"); ok && (name == "SkipNow" || name == "Skip" && len(call.Args) == 0) {
				t.Errorf("%s: t.%s without a reason", s.at(n), name)
			}
			return true
		})
	}
}

// isCall reports whether a statement is the call, and nothing else.
func isCall(s ast.Stmt, call *ast.CallExpr) bool {
	e, ok := s.(*ast.ExprStmt)
	return ok && e.X == call
}

func TestModuleReplacesNothing(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "replace") {
			t.Errorf("go.mod: %s; who imports this module would not get it", strings.TrimSpace(line))
		}
	}
}
