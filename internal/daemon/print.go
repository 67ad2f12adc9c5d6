// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Describe returns one line for people on the field at a path: what it means, its variable, and its default.
func Describe(path string) string {
	f, c := fieldAt(path), Default()
	text := fmt.Sprintf("%s (%s", f.doc, f.env())
	if value := strings.Join(f.get(&c), ","); value != "" {
		text += ", default " + value
	}
	return text + ")"
}

// Print writes the configuration as a file that Load reads back to an equal one. Each field has a
// comment with its meaning and its variable. Tokens are not part of it.
func (c *Config) Print(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Tokens are in no file: SIGNPOST_ADMIN_TOKEN, SIGNPOST_API_TOKEN, SIGNPOST_STORE_PASSWORD, SIGNPOST_SENTINEL_PASSWORD, and SIGNPOST_STORE_PASSWORD_EU for a home eu.\n\n")
	group := ""
	for i := range fields {
		f := &fields[i]
		parent, name, nested := strings.Cut(f.path, ".")
		indent := ""
		if nested {
			if parent != group {
				fmt.Fprintf(&b, "%s:\n", parent)
			}
			indent = "  "
		} else {
			parent, name = "", f.path
		}
		group = parent
		note := ""
		if !f.live {
			note = "; takes a restart"
		}
		fmt.Fprintf(&b, "%s# %s (%s%s)\n", indent, f.doc, f.env(), note)
		values := f.get(c)
		switch {
		case !f.list:
			fmt.Fprintf(&b, "%s%s: %s\n", indent, name, scalarYAML(values[0]))
		case len(values) == 0:
			fmt.Fprintf(&b, "%s%s: []\n", indent, name)
		default:
			fmt.Fprintf(&b, "%s%s:\n", indent, name)
			for _, v := range values {
				fmt.Fprintf(&b, "%s  - %s\n", indent, scalarYAML(v))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// scalarYAML returns a text as YAML reads it back. A Go string of printable characters is a double-quoted one of YAML.
func scalarYAML(text string) string {
	for _, c := range text {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._/-", c)
		if !plain {
			return strconv.Quote(text)
		}
	}
	switch strings.ToLower(text) {
	case "", "null", ".inf", ".nan": // what YAML reads as another kind of value than a field has
		return strconv.Quote(text)
	}
	if text[0] == '-' {
		return strconv.Quote(text)
	}
	return text
}
