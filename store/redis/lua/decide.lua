-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- A take is decided beside the data and charged if it is admitted: steps 1 to 4 of docs/rules.md. This is the text that take.lua
-- and takes.lua have in place of a word.
--
-- key has the windows and leases, nil for a cheap take, the leases; clock is the server's instant.
-- request is the instant (0: the server's), the cost, and for each window of the bound its length in seconds and its limit;
-- lease, only for an expensive take, is the concurrency and the id of the lease.
--
-- The reply is one string: the verdict, the instant, for an expensive take how many leases are alive and when the lease expires
-- that must end first for one slot to be free, and the windows as they were before any charge, so that the caller can judge
-- as well.
local now, cost, next = unpack('>I8I4', request)
local named = now > 0
local keeps = not named -- whether the key ends late enough as it is: it does while its windows stay
if keeps then now = clock end
local state = redis.pcall('GET', key) or '' -- as load does, but that an error is an answer
if state ~= '' and (#state % SIZE ~= 1 or string.byte(state) ~= 1) then
  if state.err then return state end
  local _, load = tools()
  return select(2, load(key))
end

local admitted, charged, moved, life = true, VERSION, VERSION, 0
local place, inplace = FIRST, true -- a state nearly always has the windows of the bound, in its order
while next < #request do
  local seconds, limit, stored, number, used
  seconds, limit, next = unpack('>I4I4', request, next)
  if place < #state then stored, number, used, place = unpack(RECORD, state, place) end
  if stored ~= seconds then
    inplace = false
    local _, _, find = tools()
    number, used = find(state, seconds)
  end
  local length = seconds * 1000
  local current = (now - now % length) / length
  if number ~= current then -- Step 1.
    keeps = false
    if number < current then
      number, used = current, 0
    elseif number > current + 1 then
      number = current
      moved = moved .. pack(RECORD, seconds, number, used)
    end
  end
  used = used + cost
  if used > limit then -- Step 2: doubles hold such sums exactly.
    admitted, used = false, 0
  end
  charged = charged .. pack(RECORD, seconds, number, used)
  local rest = (number + 1) * length - now
  if named and rest < length then rest = length end -- as write does
  if rest > life then life = rest end
end

local held, latest = '', now + LEASE_LIFE
if leases then -- Step 3.
  local allowed = unpack('>I4', lease)
  local last = tonumber(call('ZRANGE', leases, -1, -1, 'WITHSCORES')[2] or 0)
  if last > latest then -- Step 1, for leases.
    for _, id in ipairs(call('ZRANGEBYSCORE', leases, string.format('(%.0f', latest), '+inf')) do
      call('ZADD', leases, latest, id)
    end
  end
  local alive, frees = 0, 0
  if last > now then alive = call('ZCOUNT', leases, string.format('(%.0f', now), '+inf') end
  if alive >= allowed then
    admitted = false
    if allowed > 0 then frees = tonumber(call('ZRANGE', leases, -allowed, -allowed, 'WITHSCORES')[2]) end
  end
  held = pack('>I4I8', alive, frees)
end

if admitted then -- Step 4. The first write is one that a server without memory refuses.
  if not inplace or #charged ~= #state then
    local _, _, _, write = tools()
    write(key, state, now, charged, named)
  elseif keeps then
    call('SET', key, charged, 'KEEPTTL')
  else
    call('SET', key, charged, 'PX', life + SLACK)
  end
  if leases then
    call('ZREMRANGEBYSCORE', leases, '-inf', now)
    call('ZADD', leases, latest, string.sub(lease, 5))
    call('PEXPIRE', leases, LEASE_LIFE + SLACK)
  end
elseif #moved > 1 then
  local _, _, _, write = tools()
  write(key, state, now, moved, named)
end
return pack('>BI8', admitted and 1 or 0, now) .. held .. state
