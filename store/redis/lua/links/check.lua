-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- check does on reserved keys whatever the other scripts of the registry do, so that what a server does not allow shows when
-- a registry is opened, all at once. KEYS: a hash, a sorted set, a string.
try('TIME')
try('EXISTS', KEYS[1])
try('HSETNX', KEYS[1], 'check', '')
try('HSET', KEYS[1], 'check', '')
try('PEXPIRE', KEYS[1], SLACK)
try('PTTL', KEYS[1])
try('HGET', KEYS[1], 'check')
try('HMGET', KEYS[1], 'check')
try('ZADD', KEYS[2], 1, 'check')
try('PEXPIRE', KEYS[2], SLACK)
try('ZCARD', KEYS[2])
try('ZRANGEBYLEX', KEYS[2], '-', '+')
try('ZRANGEBYSCORE', KEYS[2], 1, 1)
try('ZREM', KEYS[2], 'check')
try('ZREMRANGEBYSCORE', KEYS[2], 1, 1)
try('SET', KEYS[3], '', 'PX', SLACK)
try('GET', KEYS[3])
try('PEXPIREAT', KEYS[3], 1)
try('DEL', KEYS[1], KEYS[2], KEYS[3])
return verdict()
