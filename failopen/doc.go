// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package failopen keeps requests moving when a store that lives elsewhere does not answer.
//
// [New] wraps such a store. While it answers, its word is law and nothing changes. A take that it does not
// answer within the timeout, or answers with an error, a panic or nonsense, is decided by the same rules over a
// small memory of this process, the fallback, and the decision says so: it is Degraded.
//
// # What an outage looks like
//
// A store may consist of parts that fail one by one; it names them by being a [signpost.Slicer]. The first
// failure degrades its slice and no other. From then on no request waits for that slice, those already
// waiting included. A probe, a real take of cost 1 on a key that nobody else uses, is sent after
// [ProbeEvery] and again that long after each that failed, one at a time. The moment one passes, the store rules again. A probe
// that the store never returns from is the last one: only a store that breaks its contract can stay degraded that way.
//
// A caller that goes away is no outage. One whose deadline is nearer than the timeout gets a local answer a little
// before it, and its call goes on without it: only a failure, or the whole timeout, degrades the slice.
//
// What is decided here goes by the store's clock, as its last answer told it and the monotonic clock has carried it on; by the process's until there
// was an answer. So the clocks of processes may be wrong.
//
// A key whose home the store does not know ([signpost.ErrUnknownHome]), or of which it cannot read what it finds ([signpost.ErrSpoilt]), is decided
// here as well. That is no outage either: it degrades no slice, and nothing is owed.
//
// # What it costs
//
//   - A request waits for the store at most the timeout (1 s unless set), once per slice and outage.
//   - A process admits at most twice the limit of a window during one: once by the store's count, once by the
//     fallback's, which starts at 0 and is kept when the store heals, so that flapping earns nothing. N processes
//     that all lose the store admit at most N+1 times the limit.
//   - The fallback holds 1,024 keys. At the 1,025th it is cleared, all at once, and each of its keys may use its limit again.
//   - At most [MaxCalls] calls and a probe are inside a slice at a time, whatever it does; one more degrades it.
//
// # Debt
//
// A take that the fallback admitted and that was never sent to the store is owed to it. What a key owes is added to its
// open windows, whatever their limits, when its slice has healed: before the next take of that key that the store decides, and
// soon in any case. It is sent once. What timed out, a debt included, may have been counted, so it is not sent
// again: counts err towards too few by at most that much. Debt whose window has ended is no debt. Debt is dropped, and
// reported, when sending it fails, when the store is no [signpost.Settler], and when the fallback is cleared; what
// is still owed at Close is lost.
package failopen
