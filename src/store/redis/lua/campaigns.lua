-- Lists ids of a partition's campaigns, in order.
--
-- KEYS  partition, campaigns
-- ARGV  clock, store id and witnesses, where to begin as ZRANGEBYLEX has it, most ids
-- reply {now, ids}
local partition = store.open(store.LOOK)
if partition.refusal then
    return partition.refusal
end
local now = partition.now
return { store.digits(now), redis.call('ZRANGEBYLEX', KEYS[2], ARGV[3], '+', 'LIMIT', 0, ARGV[4]) }
