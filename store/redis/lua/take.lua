-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- One take, as decide.lua says.
--
-- KEYS[1] has the windows; KEYS[2], only for an expensive take, the leases. ARGV[1] is the request, and ARGV[2], only for an
-- expensive take, the lease that it asks for. It returns the reply.
local time = call('TIME') -- as clock does
local ms = time[2] / 1000
local clock = time[1] * 1000 + ms - ms % 1
local key, request, leases, lease = KEYS[1], ARGV[1], KEYS[2], ARGV[2]
DECIDE
