// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A parser takes time and memory that grow faster than its text, and with each level of it. A
// configuration has three levels and is small.
const (
	maxFile   = 64 << 10 // bytes
	maxFlow   = 8        // brackets within brackets
	maxColumn = 64       // where "- " and "? " can begin, each of which may be a level
)

// readFile reads a YAML file by its tree rather than by decoding into a struct: a decoder stops
// at the first fault and loses the lines of the values that it accepts.
func (l *loader) readFile(path string, content []byte) {
	name := filepath.Base(path)
	tokens := lexer.Tokenize(string(content))
	if deep := firstTooDeep(tokens); deep != nil {
		l.fault(fmt.Sprintf("%s:%d", name, deep.Position.Line), "more levels than any field has")
		return
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			l.fault(fmt.Sprintf("%s:%d", name, syntax.GetToken().Position.Line), "%s", syntax.GetMessage())
			return
		}
		l.fault(name, "%v", err)
		return
	}
	for i, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 {
			l.fault(at(name, doc.Body), "a second document; one file holds one configuration")
			continue
		}
		l.readMapping(name, "", doc.Body)
	}
	// What is empty is more often half written, or not mounted, than a wish for the defaults, which are looser.
	if len(l.settings) == 0 && len(l.faults) == 0 {
		l.fault(name, "names no field; name one, or no file for the defaults")
	}
}

// firstTooDeep returns a token that is deeper than a configuration goes, or nil.
func firstTooDeep(tokens token.Tokens) *token.Token {
	flow := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Column > maxColumn {
				return t
			}
		}
		if flow > maxFlow {
			return t
		}
	}
	return nil
}

func at(name string, n ast.Node) string {
	return fmt.Sprintf("%s:%d", name, n.GetToken().Position.Line)
}

// readMapping reads the fields below prefix, which is "" or ends in a dot.
func (l *loader) readMapping(name, prefix string, n ast.Node) {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	case *ast.CommentGroupNode:
	default:
		l.fault(at(name, n), "%swant fields, such as \"door: 127.0.0.1:8080\"", label(prefix))
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		key := prefix + pair.Key.GetToken().Value
		where := at(name, pair.Key)
		if seen[key] {
			l.fault(where, "%s: is there twice", key)
			continue
		}
		seen[key] = true
		if f := fieldAt(key); f != nil {
			if texts, ok := l.readValue(name, where, f, pair.Value); ok {
				l.settings = append(l.settings, setting{f, texts, where})
			}
			continue
		}
		if group := key + "."; len(fieldsBelow(group)) > 0 {
			l.readMapping(name, group, pair.Value)
			continue
		}
		switch key {
		case "admin_token", "api_token", "store_password", "sentinel_password":
			l.fault(where, "%s: secrets are in no file; put it into SIGNPOST_%s", key, strings.ToUpper(key))
			continue
		}
		l.fault(where, "%s: no such field; here can stand: %s", key, strings.Join(fieldsBelow(prefix), ", "))
	}
}

// readValue returns the texts of one field, or false after a fault.
func (l *loader) readValue(name, where string, f *field, n ast.Node) (texts []text, ok bool) {
	nodes := []ast.Node{n}
	if f.list {
		sequence, isList := n.(*ast.SequenceNode)
		if !isList {
			l.fault(where, "%s: want a list, such as [a, b] or lines that begin with \"- \"", f.path)
			return nil, false
		}
		nodes = sequence.Values
	}
	ok = true
	for _, n := range nodes {
		if f.list {
			where = at(name, n)
		}
		value, err := scalarText(n)
		if err != nil {
			l.fault(where, "%s: %v", f.path, err)
			ok = false
		}
		texts = append(texts, text{value, where})
	}
	return texts, ok
}

// scalarText returns the text as it stands in the file, so that 0x10, 1e3 and 1_000 stay what
// they look like and each field decides what it takes.
func scalarText(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("has no value; leave the field out for the default")
	}
	return "", errors.New("want one plain value")
}

func fieldAt(path string) *field {
	for i := range fields {
		if fields[i].path == path {
			return &fields[i]
		}
	}
	return nil
}

// fieldsBelow returns the names that can stand in the mapping at prefix.
func fieldsBelow(prefix string) []string {
	var names []string
	for i := range fields {
		rest, ok := strings.CutPrefix(fields[i].path, prefix)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names
}

func label(prefix string) string {
	if prefix == "" {
		return ""
	}
	return strings.TrimSuffix(prefix, ".") + ": "
}
