-- Reads who has which packets of an envelope.
--
-- KEYS  partition, then buckets of grabs
-- ARGV  clock, store id and witnesses
-- reply {now, then for each bucket: users and packets in turn}
local partition = store.open(store.LOOK)
if partition.refusal then
    return partition.refusal
end
local now = partition.now
local reply = { store.digits(now) }
for place = 2, #KEYS do
    reply[place] = redis.call('HGETALL', KEYS[place])
end
return reply
