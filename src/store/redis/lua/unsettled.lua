-- Reads the entries of a partition's ledger that are not settled: items from the last settled entry
-- on, including that one.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, number of the last settled entry (0: none), most items
-- reply {head, replication id of the current fork, items}
local refusal, now, _, replid = open_to_read()
if refusal then
    return refusal
end
return {
    reply_head(now, replid, 0), replid,
    redis.call('XRANGE', KEYS[2], ARGV[3] .. '-0', '+', 'COUNT', ARGV[4]),
}
