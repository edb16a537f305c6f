-- Lists ids of a partition's campaigns, in order.
--
-- KEYS  partition, campaigns
-- ARGV  clock, store id, where to begin as ZRANGEBYLEX has it, most ids
-- reply {now, 'L'}: the store is not the one it was; {now, ids}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
return { digits(now), redis.call('ZRANGEBYLEX', KEYS[2], ARGV[3], '+', 'LIMIT', 0, ARGV[4]) }
