-- Removes the items of a partition's ledger that come before the last settled entry. Its own item
-- stays: the ledger's end must always be there, and the settler compares it.
--
-- After a rollback, entries that are not settled may have lower numbers than the last settled one.
-- So nothing is removed unless that entry is here, in the fork under which it was settled.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, fork and number of the last settled entry
-- reply {head, number of removed items}
local refusal, now, last, replid = open_to_write()
if refusal then
    return refusal
end
local fork, settled = ARGV[3], ARGV[4]
if fork ~= replid then
    last = tonumber(redis.call('HGET', KEYS[1], 'fork:' .. fork) or '')
end
local item = settled .. '-0'
local removed = 0
if last and tonumber(settled) <= last and #redis.call('XRANGE', KEYS[2], item, item) == 1 then
    removed = redis.call('XTRIM', KEYS[2], 'MINID', '~', item)
end
return { reply_head(now, replid, 0), digits(removed) }
