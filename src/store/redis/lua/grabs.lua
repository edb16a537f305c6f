-- Reads who has which packets of an envelope.
--
-- KEYS  partition, then buckets of grabs
-- ARGV  clock, store id
-- reply {now, 'L'}: the store is not the one it was; {now, then for each bucket: users and packets in turn}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
local reply = { digits(now) }
for place = 2, #KEYS do
    reply[place] = redis.call('HGETALL', KEYS[place])
end
return reply
