-- Forgets draws that nobody may ask for any more: goes through the users of all campaigns, some buckets at a time, and takes out what
-- is older than the memory's window. Begins anew when half of that has passed. Where services remember for different times, the
-- longest counts.
--
-- KEYS  partition, campaigns, then of a campaign: long draws, some buckets of users
-- ARGV  clock, store id, request memory in microseconds, that campaign, number of the first of these buckets, of all buckets
-- reply {now, 'L'}: the store is not the one it was; {now, campaign, number of its bucket to go on with}, where the campaign is empty
--       when there is nothing to forget for now
local store, last, campaign, bucket, began, memory, memory_before =
    unpack(redis.call('HMGET', KEYS[1], 'store', 'last', 'forgetting', 'bucket', 'began', 'memory', 'memory_before'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
local INTERVAL_MIN = 600 * 1000000 -- in which every service tells for how long it remembers
local FIELDS = 4000 -- looked at in one call
local LATEST, BONUS = 2, 4 -- see codec.rs
campaign, bucket, began, memory = campaign or '', tonumber(bucket or 0), tonumber(began or 0), tonumber(memory or 0)
memory = math.max(memory, tonumber(ARGV[3]))
local longest = math.max(memory, tonumber(memory_before or 0))
local oldest = now - longest

-- A record without its latest draw, if that is too old.
local function without_latest(record)
    local values = { cmsgpack.unpack(record) }
    local has = values[8]
    local bonus = has >= BONUS and values[9] or nil
    if has % BONUS < LATEST or values[bonus and 10 or 9] >= oldest then
        return nil
    end
    values[8] = has - LATEST
    local packed = cmsgpack.pack(unpack(values, 1, 8))
    return bonus and packed .. cmsgpack.pack(bonus) or packed
end

-- Whether a draw in a field of its own is too old.
local function is_old(draw)
    return not draw or cmsgpack.unpack(draw) < oldest
end

local function forget_in(users)
    -- One of a wrong type is told of by its draws.
    local fields = redis.pcall('HGETALL', users)
    for place = 1, #fields, 2 do
        local field, value = fields[place], fields[place + 1]
        if value == '' then
            if is_old(redis.call('HGET', KEYS[3], field)) then
                redis.call('HDEL', KEYS[3], field)
                redis.call('HDEL', users, field)
            end
        elseif string.byte(value) == 0xcf then
            if is_old(value) then
                redis.call('HDEL', users, field)
            end
        else
            local record = without_latest(value)
            if record then
                redis.call('HSET', users, field, record)
            end
        end
    end
    return #fields / 2
end

-- The campaign after one, or the empty text.
local function after(id)
    return redis.call('ZRANGEBYLEX', KEYS[2], '(' .. id, '+', 'LIMIT', 0, 1)[1] or ''
end

if campaign == '' then
    if now - began >= math.max(longest / 2, INTERVAL_MIN) then
        campaign, bucket, began, memory, memory_before = after(''), 0, now, 0, memory
    end
elseif campaign == ARGV[4] and bucket == tonumber(ARGV[5]) then
    local key, looked_at = 4, 0
    while key <= #KEYS and looked_at < FIELDS do
        looked_at = looked_at + forget_in(KEYS[key])
        key, bucket = key + 1, bucket + 1
    end
    if bucket >= tonumber(ARGV[6]) then
        campaign, bucket = after(campaign), 0
    end
end
redis.call('HSET', KEYS[1], 'forgetting', campaign, 'bucket', bucket, 'began', digits(began), 'memory', digits(memory),
    'memory_before', digits(memory_before or 0))
return { digits(now), campaign, digits(bucket) }
