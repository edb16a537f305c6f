-- Reads the sums of a partition's envelopes.
--
-- KEYS  partition, sums of envelopes
-- ARGV  clock, store id
-- reply {now, 'L'}: the store is not the one it was; {now, names and values in turn}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
return { digits(now), redis.call('HGETALL', KEYS[2]) }
