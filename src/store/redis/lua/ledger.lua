-- Reads entries of a partition's ledger: items whose last entry is after a sequence number.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id, sequence, most items
-- reply {now, 'L'}: the store is not the one it was; {now, items}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
return { digits(now), redis.call('XRANGE', KEYS[2], '(' .. ARGV[3] .. '-0', '+', 'COUNT', ARGV[4]) }
