// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package disk_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/disk"
)

// A test binary that finds this variable is a process to be killed: it takes from the store in that directory and
// acknowledges what was admitted.
const childDir = "SIGNPOST_DISK_TEST_DIR"

const (
	childKeys  = 8
	childLimit = 100_000
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// patient are the options of a store that a slow machine does not degrade.
var patient = disk.Options{CommitTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}

func childRequest(k int) signpost.Request {
	return signpost.Request{
		Key:   signpost.KeyOf("child", strconv.Itoa(k)),
		Bound: signpost.MustParseBound(fmt.Sprintf("%d/90s %d/hour", childLimit, childLimit)),
		At:    1768471200000,
	}
}

// child acknowledges each admitted take with the number of its key, once it is durable. It ends by being killed.
func child(dir string) error {
	s, err := disk.Open(dir, patient)
	if err != nil {
		return err
	}
	l := signpost.New(s, signpost.Options{})
	var out sync.Mutex
	var group sync.WaitGroup
	for caller := range 4 {
		group.Go(func() {
			for i := caller; ; i++ {
				k := i % childKeys
				d, err := l.Take(context.Background(), childRequest(k))
				if err != nil || !d.Admitted || d.Degraded {
					fmt.Fprintf(os.Stderr, "take: admitted=%v degraded=%v error=%v\n", d.Admitted, d.Degraded, err)
					os.Exit(1)
				}
				out.Lock()
				os.Stdout.WriteString(strconv.Itoa(k) + "\n")
				out.Unlock()
			}
		})
	}
	group.Wait()
	return nil
}

func startChild(t *testing.T, dir string) (cmd *exec.Cmd, out io.Reader, stderr *strings.Builder) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stderr = exec.Command(self), &strings.Builder{}
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = stderr
	out, err = cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, stderr
}

// TestKilled kills a process that takes, again and again at random moments. Every take that it acknowledged is counted
// when the store is opened again, and at most those in flight are besides.
func TestKilled(t *testing.T) {
	const kills, inFlight = 50, 4
	dir := t.TempDir()
	acknowledged := make([]int, childKeys)
	begin := time.Now()
	total := 0
	for kill := range kills {
		cmd, out, stderr := startChild(t, dir)
		lines := bufio.NewScanner(out)
		seen, last := 0, 1+rand.IntN(60)
		for lines.Scan() {
			k, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatalf("the child said %q", lines.Text())
			}
			acknowledged[k]++
			if seen++; seen == last {
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Wait()
		if seen < last {
			t.Fatalf("the child ended by itself: %s", stderr)
		}
		total += seen
		if kill%5 != 0 { // the next child has to cope with what this one left
			continue
		}
		checkCounts(t, dir, acknowledged, inFlight*(kill+1))
	}
	checkCounts(t, dir, acknowledged, inFlight*kills)
	t.Logf("%d takes acknowledged over %d kills in %v", total, kills, time.Since(begin).Round(time.Second))
}

func checkCounts(t *testing.T, dir string, acknowledged []int, unknown int) {
	t.Helper()
	s, err := disk.Open(dir, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	over := 0
	for k, n := range acknowledged {
		d, _, err := s.Peek(t.Context(), childRequest(k))
		if err != nil || !d.Admitted {
			t.Fatalf("peek: admitted=%v error=%v", d.Admitted, err)
		}
		for _, w := range d.Windows() {
			if int(w.Used) < n {
				t.Fatalf("key %d: %d are counted in the window %s, and %d were acknowledged", k, w.Used, w.Name(), n)
			}
		}
		over += int(d.Windows()[0].Used) - n
	}
	if over > unknown {
		t.Errorf("%d takes are counted that were not acknowledged; at most %d were in flight", over, unknown)
	}
}

// TestSecondProcess opens a store that another process has open, and then one that the other has been killed with.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	cmd, out, stderr := startChild(t, dir)
	if !bufio.NewScanner(out).Scan() {
		t.Fatalf("the child ended: %s", stderr)
	}
	_, err := disk.Open(dir, disk.Options{})
	if !errors.Is(err, disk.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("open: %v, want ErrLocked and the directory", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, out)
	cmd.Wait()
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatalf("open after the other was killed: %v", err)
	}
	s.Close()
}

// TestDirectoryReplaced removes the directory under a store, and lets another process begin in its place. The first one says
// that its counts are not kept, and keeps its hands off those of the other.
func TestDirectoryReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := disk.Open(dir, patient)
	if err != nil {
		t.Fatal(err)
	}
	l := signpost.New(first, signpost.Options{})
	if d, err := l.Take(t.Context(), childRequest(0)); err != nil || d.Degraded {
		t.Fatalf("take: degraded=%v error=%v", d.Degraded, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !first.Stats().Degraded; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not degraded within 20 s")
		}
	}

	cmd, out, stderr := startChild(t, dir)
	lines := bufio.NewScanner(out)
	acknowledged := make([]int, childKeys)
	for seen := 0; lines.Scan(); {
		k, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the child said %q", lines.Text())
		}
		acknowledged[k]++
		if d, err := l.Take(t.Context(), childRequest(k)); err != nil || !d.Admitted || !d.Degraded {
			t.Fatalf("take of the first store: admitted=%v degraded=%v error=%v", d.Admitted, d.Degraded, err)
		}
		if seen++; seen == 200 {
			if err := first.Close(); !errors.Is(err, signpost.ErrNotDurable) || !strings.Contains(err.Error(), "removed") {
				t.Errorf("close the first store: %v, want ErrNotDurable and why", err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	for lines.Scan() {
		if k, err := strconv.Atoi(lines.Text()); err == nil {
			acknowledged[k]++
		}
	}
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Fatalf("the child ended by itself: %s", stderr)
	}
	checkCounts(t, dir, acknowledged, 4)
}
