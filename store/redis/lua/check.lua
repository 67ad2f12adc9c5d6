-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- check does on a reserved key whatever the other scripts and releases do, often or seldom, so that what a server does not
-- allow shows when a store is opened. KEYS[1] has windows, KEYS[2] leases.
local clock, load = tools()
clock()
load(KEYS[1])
call('SET', KEYS[1], VERSION, 'PX', SLACK)
call('ZADD', KEYS[2], 1, 'check')
call('PEXPIRE', KEYS[2], SLACK)
call('ZSCORE', KEYS[2], 'check')
call('ZCOUNT', KEYS[2], 1, 1)
call('ZRANGE', KEYS[2], -1, -1)
call('ZRANGEBYSCORE', KEYS[2], 1, 1)
call('ZREMRANGEBYSCORE', KEYS[2], 1, 1)
call('ZREM', KEYS[2], 'check')
return call('DEL', KEYS[1], KEYS[2])
