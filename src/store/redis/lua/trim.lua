-- Removes the items of a partition's ledger that come before the last settled entry, and notes how
-- far it is settled. Its own item stays: the ledger's end must always be there, and the settler
-- compares it.
--
-- After a rollback, entries that are not settled may have lower numbers than the last settled one.
-- So nothing is removed unless that entry is here, in the fork under which it was settled.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, fork and number of the last settled entry
-- reply {head, number of removed items}; {head, 'R'}: that entry is not here
local refusal, now, last, replid, _, format = open_to_write()
if refusal then
    return refusal
end
local fork, settled = ARGV[3], ARGV[4]
if fork ~= replid then
    last = tonumber(redis.call('HGET', KEYS[1], 'fork:' .. fork) or '')
end
local item = settled .. '-0'
local number = tonumber(settled)
if not last or number > last or #redis.call('XRANGE', KEYS[2], item, item) == 0 then
    return { reply_head(now, replid, 0), 'R' }
end
local before, at, jumps = settled_entry(), nil, nil
local is_news = format >= FULL_ENTRIES_FORMAT and (not before or before < number)
if is_news then
    at = oldest_after(number - 1)
    if not at then
        return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ': item ' .. item .. ' has no moment')
    end
    jumps = jumps_after(number)
end
-- XTRIM needs no memory, so a full server takes the writes after it too (see `allow_full_memory`).
local removed = redis.call('XTRIM', KEYS[2], 'MINID', '~', item)
if is_news then
    redis.call('HSET', KEYS[1], 'settled', settled .. ' ' .. digits(at), 'jumps', jumps)
end
return { reply_head(now, replid, 0), digits(removed) }
