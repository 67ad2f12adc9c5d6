-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- Cheap takes of many callers, each decided by itself as decide.lua says, one after the other and at one instant.
--
-- KEYS[i] has the windows of the request ARGV[i]. It returns the replies in that order, or errors in place of them: the fault of
-- one key is not that of another.
local time = call('TIME') -- as clock does
local ms = time[2] / 1000
local clock = time[1] * 1000 + ms - ms % 1
local leases, lease
local function decide(key, request)
DECIDE
end

local replies = {}
for i = 1, #KEYS do replies[i] = decide(KEYS[i], ARGV[i]) end
return replies
