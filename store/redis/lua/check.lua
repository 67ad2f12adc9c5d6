-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- check does on a reserved key whatever the other scripts and releases do, often or seldom, so that what a server does not
-- allow shows when a store is opened, all at once. KEYS[1] has windows, KEYS[2] leases.
try('TIME')
try('GET', KEYS[1])
try('SET', KEYS[1], VERSION, 'PX', SLACK)
try('ZADD', KEYS[2], 1, 'check')
try('PEXPIRE', KEYS[2], SLACK)
try('ZSCORE', KEYS[2], 'check')
try('ZCOUNT', KEYS[2], 1, 1)
try('ZRANGE', KEYS[2], -1, -1)
try('ZRANGEBYSCORE', KEYS[2], 1, 1)
try('ZREMRANGEBYSCORE', KEYS[2], 1, 1)
try('ZREM', KEYS[2], 'check')
try('DEL', KEYS[1], KEYS[2])
return verdict()
