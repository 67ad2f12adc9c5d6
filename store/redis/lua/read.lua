-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- read returns what is stored for a key, and writes nothing.
--
-- KEYS[1] has the windows; KEYS[2], if it is given, the leases. ARGV[1] is the instant (0: the server's clock).
-- It returns a list: one string of the instant and the windows, then each lease's id and expiry, first to expire first.
local clock, load = tools()
local now = unpack('>I8', ARGV[1])
if now == 0 then now = clock() end
local state, unknown = load(KEYS[1])
if unknown then return unknown end
local reply = KEYS[2] and call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES') or {}
table.insert(reply, 1, pack('>I8', now) .. state)
return reply
