-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- renew extends a living lease, and returns its new expiry or 0.
--
-- KEYS[1] has the leases. ARGV[1] is the instant (0: the server's clock), ARGV[2] the id of the lease.
local clock = tools()
local now = unpack('>I8', ARGV[1])
if now == 0 then now = clock() end
local expires = tonumber(call('ZSCORE', KEYS[1], ARGV[2]) or 0)
if expires <= now then return 0 end
call('ZADD', KEYS[1], now + LEASE_LIFE, ARGV[2])
call('PEXPIRE', KEYS[1], LEASE_LIFE + SLACK)
return now + LEASE_LIFE
