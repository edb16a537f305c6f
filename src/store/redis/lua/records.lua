-- Reads users' records.
--
-- KEYS  partition, then each user's hash
-- ARGV  clock, store id, then each user's field
-- reply {now, 'L'}: the store is not the one it was; {now, for each user: the record where there is one}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
local records = {}
for place = 2, #KEYS do
    records[place - 1] = redis.call('HGET', KEYS[place], ARGV[place + 1])
end
return { digits(now), records }
