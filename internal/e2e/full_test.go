// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/signposthq/signpost/internal/admin"
)

// smallDisk mounts a file system of so many bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	sudo := func(args ...string) *exec.Cmd {
		if os.Getuid() != 0 {
			args = append([]string{"sudo", "-n"}, args...)
		}
		return exec.Command(args[0], args[1:]...)
	}
	if os.Getuid() != 0 {
		if out, err := sudo("true").CombinedOutput(); err != nil {
			t.Skipf("only root can mount a small file system, and this user is not root and has no sudo: %v\n%s", err, out)
		}
	}
	if out, err := sudo("mount", "-t", "tmpfs", "-o", "mode=0777,size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a small file system: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := sudo("umount", "--lazy", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount %s: %v\n%s", dir, err, out)
		}
	})
	return dir
}

// fill makes a file larger until there is no room.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// writeALot takes from many keys, over several connections without waiting for each answer, until ctx ends. What a key
// holds is as large as it can be.
func writeALot(ctx context.Context, t *testing.T, d *daemon) *sync.WaitGroup {
	const burst = 100
	var writers sync.WaitGroup
	for w := range 6 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.API, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		var requests strings.Builder
		for i := range burst {
			bound := []string{"4e/30d 4e/60d 4e/90d 4e/120d", "4e/150d 4e/200d 4e/300d 4e/360d"}[i%2]
			body := fmt.Sprintf(`{"namespace": "lot", "key": "%d/%d", "bound": %q}`, w, i/2, strings.ReplaceAll(bound, "4e", "1000000000"))
			fmt.Fprintf(&requests, "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		t.Cleanup(func() { stop(); conn.Close() })
		writers.Go(func() {
			answers := bufio.NewReader(conn)
			for ctx.Err() == nil {
				if _, err := io.WriteString(conn, requests.String()); err != nil {
					break
				}
				for range burst {
					resp, err := http.ReadResponse(answers, nil)
					if err != nil {
						break
					}
					io.Copy(io.Discard, resp.Body)
					if resp.StatusCode != http.StatusOK {
						t.Errorf("take beside a full disk: %d", resp.StatusCode)
						return
					}
				}
			}
			if ctx.Err() == nil {
				t.Error("the connection to the api broke")
			}
		})
	}
	return &writers
}

// A full disk stops nobody. Answers say that they are degraded while it is, and the count is exact in the end.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "6m")
	dir, ballast := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
	writeFile(t, ballast, strings.Repeat("x", 3<<20)) // there is little room from the start, or it would take long to use it
	d := serve(t, onDisk(dir)...)
	link := d.mint(t, "1000000/"+longWindow())
	c := newClient(t)
	taken := uint32(0)
	take := func() (degraded bool) {
		t.Helper()
		var a answer
		if taken%2 == 0 {
			a = c.ask(t, "GET", d.Door+"/read/welcome", "", bearer(link.Credential)...)
		} else {
			a = c.ask(t, "POST", d.API+"/v1/take", marshal(t, map[string]string{"link": link.Credential}))
		}
		taken++
		marker := a.header.Get("X-Signpost-Ratelimit")
		if a.status != http.StatusOK || marker != "" && marker != "degraded" {
			t.Fatalf("take %d: %d %q %s", taken, a.status, marker, a.body)
		}
		if inBody := strings.Contains(a.body, `"degraded":true`); taken%2 == 0 && inBody != (marker != "") {
			t.Fatalf("take %d: marker %q beside %s", taken, marker, a.body)
		}
		return marker != ""
	}
	eventually(t, "answers are not degraded when there is room", func() bool { return !take() })

	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	writers := writeALot(ctx, t, d)
	onFullDisk := func(what string, holds func() bool) {
		t.Helper()
		waitFor(t, 2*patience, "on a full disk "+what, func() bool {
			fill(t, ballast) // again and again: the daemon gives up what it had in reserve, and heals with it
			return holds()
		})
	}
	degraded := 0
	onFullDisk("answers are degraded", func() bool {
		if take() {
			degraded++
		}
		return degraded == 20
	})
	onFullDisk("it is ready, and says that it is degraded", func() bool {
		a := c.ask(t, "GET", d.Admin+"/readyz", "")
		if a.status != http.StatusOK {
			t.Fatalf("readiness on a full disk: %d %q", a.status, a.body)
		}
		return strings.Contains(a.body, "degraded: store")
	})
	onFullDisk("the metrics say that it is degraded", func() bool {
		return strings.Contains(d.metrics(t), "\nsignpost_degraded 1\n")
	})
	links := 2 // the first and the one above; and maybe the one that was refused, if the disk was found to be full while it was written
	onFullDisk("what must be kept and cannot be is refused", func() bool {
		a := c.ask(t, "POST", d.Admin+"/v1/links", "{}", bearer(adminToken)...)
		if a.status == http.StatusCreated {
			links++
		}
		return a.status == http.StatusServiceUnavailable
	})
	enough()
	writers.Wait()

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, "answers are not degraded when there is room again", func() bool { return !take() })
	eventually(t, "it is ready, and says no more", func() bool {
		a := c.ask(t, "GET", d.Admin+"/readyz", "")
		return a.status == http.StatusOK && a.body == "ok\n"
	})
	if used := d.inspect(t, link.ID).Windows[0].Used; used != taken {
		t.Errorf("%d counted, want %d", used, taken)
	}
	d.kill(t)
	d = serve(t, onDisk(dir)...)
	if used := d.inspect(t, link.ID).Windows[0].Used; used != taken {
		t.Errorf("%d counted after a kill, want %d", used, taken)
	}
	var list admin.LinkList
	if d.manage(t, "GET", "/v1/links", nil, &list); len(list.Links) != links && len(list.Links) != links+1 {
		t.Errorf("%d links, want the %d that were minted", len(list.Links), links)
	}
}
