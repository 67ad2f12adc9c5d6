-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- ids returns ids in order. KEYS: the ids of all records. ARGV: where to begin, and how many at most.
return call('ZRANGEBYLEX', KEYS[1], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
