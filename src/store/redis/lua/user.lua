-- Reads a user's record and whether the campaign is still the version that the caller knows.
--
-- KEYS  partition, campaign, user's bucket
-- ARGV  clock, store id, user field
-- reply {now, 'L'}: the store is not the one it was; {now, 'M'}: no such campaign
--       {now, campaign's fields and values, record where there is one}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
local fields = redis.call('HGETALL', KEYS[2])
if #fields == 0 then
    return { digits(now), 'M' }
end
return { digits(now), fields, redis.call('HGET', KEYS[3], ARGV[3]) }
