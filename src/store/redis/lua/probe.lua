-- The probe of a service: whether the partition is there and whole, and takes writes. So it writes, but changes nothing.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses
-- reply {head}; {head, text}: what is wrong with the ledger
local partition = open_partition(WRITE)
if partition.refusal then
    return partition.refusal
end
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local number = newest and tonumber(string.match(newest[1], '^%d+')) or 0
if number ~= partition.sequence then
    return { head(partition, 0), KEYS[2] .. ' ends with entry ' .. digits(number) .. ', but ' .. digits(partition.sequence) ..
        ' was written: it was deleted, or cut off' }
end
redis.call('HSET', KEYS[1], 'store', string.sub(ARGV[2], 1, 32))
return { head(partition, 0) }
