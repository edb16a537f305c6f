-- Counts the units that wait in a campaign's queues.
--
-- KEYS  partition, campaign, queues
-- ARGV  clock, store id and witnesses, revision that was read
-- reply {now, 'S'}: the campaign has changed since
--       {now, campaign's fields and values, for each queue: all units, and the due ones of
--        them, number of the partition's last entry}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
if redis.call('HGET', KEYS[2], 'revision') ~= ARGV[3] then
    return { digits(now), 'S' }
end
local counts = {}
for index = 3, #KEYS do
    counts[#counts + 1] = redis.call('ZCARD', KEYS[index])
    counts[#counts + 1] = redis.call('ZCOUNT', KEYS[index], '-inf', digits(now))
end
local head = redis.call('HGET', KEYS[1], 'sequence')
return { digits(now), redis.call('HGETALL', KEYS[2]), counts, head }
