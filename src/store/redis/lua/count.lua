-- Counts what waits in a campaign's queues.
--
-- KEYS  partition, campaign, queues
-- ARGV  clock, store id, revision that was read
-- reply {now, 'L'}: the store is not the one it was; {now, 'S'}: something has changed
--       {now, campaign's fields and values, for each queue: how many units, and how many of them are due}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
if redis.call('HGET', KEYS[2], 'revision') ~= ARGV[3] then
    return { digits(now), 'S' }
end
local counts = {}
for place = 3, #KEYS do
    counts[#counts + 1] = redis.call('ZCARD', KEYS[place])
    counts[#counts + 1] = redis.call('ZCOUNT', KEYS[place], '-inf', digits(now))
end
return { digits(now), redis.call('HGETALL', KEYS[2]), counts }
