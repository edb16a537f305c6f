-- Reads entries of a partition's ledger: items whose last entry is after a sequence number.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, sequence, most items
-- reply {now, items}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
return { digits(now), redis.call('XRANGE', KEYS[2], '(' .. ARGV[3] .. '-0', '+', 'COUNT', ARGV[4]) }
