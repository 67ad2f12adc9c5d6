-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- take decides beside the data and charges if it admits: steps 1 to 4 of docs/rules.md.
--
-- KEYS[1] has the windows; KEYS[2], only for an expensive take, the leases.
-- ARGV[1] is the instant (0: the server's clock), the cost, and for each window of the bound its length in seconds and
-- its limit; ARGV[2], only for an expensive take, the concurrency and the id of the lease.
--
-- It returns one string: its verdict, the instant, how many leases are alive, when the lease expires that must end first
-- for one slot to be free, and the windows as they were before any charge, so that the caller can judge as well.
local request = ARGV[1]
local now, cost, at = struct.unpack('>I8I4', request)
if now == 0 then now = clock() end
local state = redis.call('GET', KEYS[1]) or ''
local fault = unknown(state)
if fault then return fault end

local admitted, charged, moved = true, {}, {}
for i = at, #request, 8 do
  local seconds, limit = struct.unpack('>I4I4', request, i)
  local number, used = find(state, seconds)
  local current = math.floor(now / (seconds * 1000))
  if number < current then -- Step 1.
    number, used = current, 0
  elseif number > current + 1 then
    number = current
    moved[#moved + 1], moved[#moved + 2], moved[#moved + 3] = seconds, number, used
  end
  if used + cost > limit then admitted = false end -- Step 2: doubles hold such sums exactly.
  charged[#charged + 1], charged[#charged + 2], charged[#charged + 3] = seconds, number, used + cost
end

local leases, alive, frees = KEYS[2], 0, 0
local latest = now + LEASE_LIFE
if leases then -- Step 3.
  local allowed = struct.unpack('>I4', ARGV[2])
  local last = tonumber(redis.call('ZRANGE', leases, -1, -1, 'WITHSCORES')[2] or 0)
  if last > latest then -- Step 1, for leases.
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, string.format('(%.0f', latest), '+inf')) do
      redis.call('ZADD', leases, latest, id)
    end
  end
  if last > now then alive = redis.call('ZCOUNT', leases, string.format('(%.0f', now), '+inf') end
  if alive >= allowed then
    admitted = false
    if allowed > 0 then frees = tonumber(redis.call('ZRANGE', leases, -allowed, -allowed, 'WITHSCORES')[2]) end
  end
end

if admitted then -- Step 4. The first write is the one that a server without memory refuses.
  write(KEYS[1], state, now, charged)
  if leases then
    redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
    redis.call('ZADD', leases, latest, string.sub(ARGV[2], 5))
    redis.call('PEXPIRE', leases, LEASE_LIFE + SLACK)
  end
elseif #moved > 0 then
  write(KEYS[1], state, now, moved)
end
return struct.pack('>BI8I4I8', admitted and 1 or 0, now, alive, frees) .. state
