// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// adminToken returns the token of the admin API: the one that was set, else the one that is
// kept beside the counts, which is made on the first start. Nothing is kept beside a
// memory store; its token lives as long as it does.
func adminToken(c *Config) (Secret, error) {
	switch {
	case !c.AdminToken.IsZero():
		return c.AdminToken, nil
	case c.Store == StoreMemory:
		return Secret{rand.Text()}, nil
	}
	path := c.tokenFile()
	if c.shared() { // the disk store makes its directory itself
		if err := os.MkdirAll(c.Data, 0o700); err != nil {
			return Secret{}, fmt.Errorf("keep admin token: %w; set SIGNPOST_ADMIN_TOKEN to keep it elsewhere", err)
		}
	}
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	switch token, err = makeToken(path); {
	case errors.Is(err, fs.ErrExist): // another process that starts on this directory was first
		return readToken(path)
	case err != nil:
		return Secret{}, fmt.Errorf("keep admin token: %w; set SIGNPOST_ADMIN_TOKEN to keep it elsewhere", err)
	}
	return token, nil
}

func readToken(path string) (Secret, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Secret{}, fmt.Errorf("read admin token: %w", err)
	case !info.Mode().IsRegular(): // whoever opens a pipe waits for its other end
		return Secret{}, fmt.Errorf("read admin token: %s is not a regular file; remove it to have one made", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, fmt.Errorf("read admin token: %w", err)
	}
	token, err := parseSecret(strings.TrimSpace(string(text)))
	if err != nil {
		return Secret{}, fmt.Errorf("read admin token: %s %w; remove the file to have a new one made", path, err)
	}
	// Volumes are mounted, and directories restored, with modes of their own. One that is right may be on a volume that is read-only.
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(path, 0o600); err != nil {
			return Secret{}, fmt.Errorf("keep admin token from other users: %w", err)
		}
	}
	return token, nil
}

// makeToken writes a new token beside path and gives it that name, so that no reader finds half of one. If path is there, it stays
// and the error is fs.ErrExist, except on a file system without hard links.
func makeToken(path string) (Secret, error) {
	token := Secret{rand.Text()}
	f, err := os.CreateTemp(filepath.Dir(path), ".admin-token-*") // mode 0600
	if err != nil {
		return Secret{}, err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, token.Reveal())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return Secret{}, err
	}
	if err = os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(f.Name(), path)
	}
	return token, err
}

// deniedByAPI answers a request without the token of the decision API.
func deniedByAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="api"`)
	writeProblem(w, problem(http.StatusUnauthorized, "unauthorized",
		"Send the token of this API as: Authorization: Bearer TOKEN. It is the value of SIGNPOST_API_TOKEN.",
		"What is behind this API is for those who run it."))
}
