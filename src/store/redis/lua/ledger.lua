-- Reads entries of a partition's ledger: items whose last entry is after a sequence number.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, sequence, most items
-- reply {now, items}
local partition = store.open(store.LOOK)
if partition.refusal then
    return partition.refusal
end
local now = partition.now
return { store.digits(now), redis.call('XRANGE', KEYS[2], '(' .. ARGV[3] .. '-0', '+', 'COUNT', ARGV[4]) }
