-- Reads the sums of a partition's envelopes.
--
-- KEYS  partition, sums of envelopes
-- ARGV  clock, store id and witnesses
-- reply {now, names and values in turn}
local partition = store.open(store.LOOK)
if partition.refusal then
    return partition.refusal
end
local now = partition.now
return { store.digits(now), redis.call('HGETALL', KEYS[2]) }
