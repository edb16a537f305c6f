-- Reads what a remembered draw answered.
--
-- KEYS  partition, campaign, for each generation that is remembered: the request's bucket, long requests
-- ARGV  clock, store id, request field
-- reply {now, 'L'}: the store is not the one it was; {now, 'M'}: no such campaign; {now, record where there is one, user's bucket}
local store, last, generation = unpack(redis.call('HMGET', KEYS[1], 'store', 'last', 'generation'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
if redis.call('EXISTS', KEYS[2]) == 0 then
    return { digits(now), 'M' }
end
-- The newest first: a request that was forgotten may have been drawn again.
for age = 0, 1 do
    local slot = (tonumber(generation) - age) % 3
    local found = redis.call('HGET', KEYS[3 + slot * 2], ARGV[3])
    if found == '' then
        found = redis.call('HGET', KEYS[4 + slot * 2], ARGV[3])
    end
    if found then
        return { digits(now), found }
    end
end
return { digits(now), false }
