-- Removes some data of a campaign that has a tombstone: goes through its keys in their order, and
-- removes a bounded number of fields. With the last key, what is left of the campaign goes too, and
-- the tombstone remains.
--
-- KEYS  partition, the campaign's removal, closed campaigns, salts, then some of the campaign's
--       keys
-- ARGV  clock, store id and witnesses, campaign id, number of the first of these keys, number of
--       all keys of the campaign, most fields
-- reply {head, '1' if there may be more, else '0'}
local refusal, now, _, replid = open_to_write()
if refusal then
    return refusal
end
local SIZES = { hash = 'HLEN', zset = 'ZCARD', set = 'SCARD' }
local first, count, room = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local next_key, cursor = unpack(redis.call('HMGET', KEYS[2], 'next', 'cursor'))
if not next_key then
    return { reply_head(now, replid, 0), '0' }
elseif tonumber(next_key) ~= first then
    return { reply_head(now, replid, 0), '1' } -- another service has taken this step
end

-- Removes as many fields of a hash as there is room for. A hash that keeps its fields in a list
-- gives all of them at once: then the cursor stays where it is.
local function remove_fields(key)
    local found = redis.call('HSCAN', key, cursor or '0', 'COUNT', room)
    local names = {}
    for index = 1, math.min(#found[2] / 2, room) do
        names[index] = found[2][index * 2 - 1]
    end
    if #names > 0 then
        redis.call('HDEL', key, unpack(names))
    end
    if #found[2] / 2 <= room then
        cursor = found[1]
    end
end

local key = 5
while key <= #KEYS and room > 0 do
    local kind = redis.call('TYPE', KEYS[key]).ok
    local size = SIZES[kind] and redis.call(SIZES[kind], KEYS[key]) or 0
    if size <= room then
        redis.call('UNLINK', KEYS[key])
        key, room, cursor = key + 1, room - size, '0'
    else
        if kind == 'hash' then
            remove_fields(KEYS[key])
        elseif kind == 'zset' then
            redis.call('ZREMRANGEBYRANK', KEYS[key], 0, room - 1)
        else
            redis.call('SPOP', KEYS[key], room)
        end
        room = 0
    end
end
local reached = first + key - 5
if reached < count then
    redis.call('HSET', KEYS[2], 'next', digits(reached), 'cursor', cursor or '0')
    return { reply_head(now, replid, 0), '1' }
end
redis.call('HDEL', KEYS[4], ARGV[3])
redis.call('ZREM', KEYS[3], ARGV[3])
redis.call('UNLINK', KEYS[2])
return { reply_head(now, replid, 0), '0' }
