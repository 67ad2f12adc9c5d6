-- SPDX-FileCopyrightText: 2026 The Signpost Authors
-- SPDX-License-Identifier: Apache-2.0

-- What the scripts share. Each is sent with this file before it. The steps are those of docs/rules.md.
--
-- The windows of a key are one string: a byte with the version of this format, then a record for each length, of the
-- length in seconds, the number of the interval since the epoch, and what is used of it. An interval begins at
-- number * length, so the window's number is part of the state, and the expiry of the key only cleans up.
--
-- Words in capitals, but for KEYS and ARGV, are constants that script.go puts in.
local call, pack, unpack = redis.call, struct.pack, struct.unpack

-- tools returns the functions below. Making them costs more than a take, which needs them seldom. It shares no variable with
-- what is outside: a shared one costs as much as a step of a take even if nobody calls this.
local function tools()
  local call, unpack, floor = redis.call, struct.unpack, math.floor

  -- clock returns the instant of a request that names none, in milliseconds (step 9).
  local function clock()
    local time = call('TIME')
    return time[1] * 1000 + floor(time[2] / 1000)
  end

  -- load returns the windows of a key, '' if there are none; or an error, if a newer process has written them.
  local function load(key)
    local state = call('GET', key)
    if not state then return '' end
    if string.byte(state) == 1 and #state % SIZE == 1 then return state end
    return nil, redis.error_reply('STATE windows are of a format that this process does not know; upgrade it')
  end

  -- find returns the interval that is stored for a length and what is used of it, or -1 and 0.
  local function find(state, seconds)
    for at = FIRST, #state, SIZE do
      local length, number, used = unpack(RECORD, state, at)
      if length == seconds then return number, used end
    end
    return -1, 0
  end

  -- write stores windows, and those of other lengths that are stored already, as step 8 says. What the
  -- expiry follows from is all in the windows, so that writing often moves no end. An instant that was named may be
  -- anywhere in a window that the server's clock has just entered, so the key then lives for a whole length.
  local function write(key, state, now, windows, instant)
    local life, named, least = 0, {}, instant and 1000 or 0
    for at = FIRST, #windows, SIZE do
      local seconds, number = unpack(RECORD, windows, at)
      named[seconds] = true
      life = math.max(life, (number + 1) * seconds * 1000 - now, least * seconds)
    end
    local room, others = MAX_LENGTHS - floor(#windows / SIZE), {}
    for at = FIRST, #state, SIZE do
      local seconds, number = unpack(RECORD, state, at)
      if not named[seconds] then
        others[#others + 1] = {seconds = seconds, ends = (number + 1) * seconds * 1000, at = at}
      end
    end
    if #others > room then
      local open = {}
      for _, other in ipairs(others) do
        if other.ends > now then open[#open + 1] = other end
      end
      table.sort(open, function(a, b) return a.ends > b.ends or a.ends == b.ends and a.seconds > b.seconds end)
      while #open > room do table.remove(open) end
      others = open
    end
    for _, other in ipairs(others) do
      windows = windows .. string.sub(state, other.at, other.at + SIZE - 1)
      life = math.max(life, math.min(other.ends - now, 2 * other.seconds * 1000), least * other.seconds)
    end
    call('SET', key, windows, 'PX', life + SLACK)
  end

  return clock, load, find, write
end
