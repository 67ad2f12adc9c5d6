// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// skews says that a clock can be made wrong here.
const skews = true

// startSkewed starts a process whose wall clock is wrong by skew, for all of its code. A process reads its clocks through the
// function __vdso_clock_gettime, which the kernel gives it. The process is held before its first instruction, and
// its copy of that function becomes one that asks the kernel, and adds seconds to the wall clock. The function that is returned makes
// the clock step: from then on it is wrong by another skew.
func startSkewed(cmd *exec.Cmd, skew time.Duration) (step func(time.Duration) error, _ error) {
	if skew == 0 {
		return nil, cmd.Start()
	}
	runtime.LockOSThread() // only the thread that holds a process may touch it
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return nil, fmt.Errorf("hold the process: status %x, error %w", status, err)
	}
	at, err := clockOf(pid)
	if err != nil {
		cmd.Process.Kill()
		return nil, fmt.Errorf("find the clock of the process: %w", err)
	}
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, clock_gettime
		0x0f, 0x05, //         syscall
		0x85, 0xff, //         test edi, edi: 0 is the wall clock
		0x75, 10, //           jne ret
		0x48, 0x8b, 0x15, 6, 0, 0, 0, // mov rdx, [seconds]
		0x48, 0x01, 0x16, //   add [rsi], rdx
		0xc3, //               ret
		0, 0,
	}
	secondsAt := int64(at) + int64(len(code))
	seconds := func(d time.Duration) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(d/time.Second)) }
	code = append(code, seconds(skew)...)
	if _, err := syscall.PtracePokeText(pid, at, code); err != nil {
		cmd.Process.Kill()
		return nil, fmt.Errorf("change the clock of the process: %w", err)
	}
	return func(d time.Duration) error {
		memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer memory.Close()
		_, err = memory.WriteAt(seconds(d), secondsAt)
		return err
	}, syscall.PtraceDetach(pid)
}

// clockOf returns where the function is in a process that is held.
func clockOf(pid int) (uintptr, error) {
	const sysinfoEHDR, imageSize = 33, 8192
	aux, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for ; len(aux) >= 16; aux = aux[16:] {
		if binary.LittleEndian.Uint64(aux) != sysinfoEHDR {
			continue
		}
		base := uintptr(binary.LittleEndian.Uint64(aux[8:]))
		image := make([]byte, imageSize)
		n, err := syscall.PtracePeekText(pid, base, image)
		if n == 0 {
			return 0, err
		}
		file, err := elf.NewFile(bytes.NewReader(image[:n]))
		if err != nil {
			return 0, err
		}
		symbols, err := file.DynamicSymbols()
		if err != nil {
			return 0, err
		}
		for _, s := range symbols {
			if s.Name == "__vdso_clock_gettime" {
				return base + uintptr(s.Value), nil
			}
		}
	}
	return 0, errors.New("the kernel gives it none")
}
