-- Lists ids of a partition's campaigns, in order.
--
-- KEYS  partition, campaigns
-- ARGV  clock, store id and witnesses, start as ZRANGEBYLEX takes it, most ids
-- reply {now, ids}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
return { digits(now), redis.call('ZRANGEBYLEX', KEYS[2], ARGV[3], '+', 'LIMIT', 0, ARGV[4]) }
