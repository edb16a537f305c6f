-- Lets a halted partition go on, once an operator has decided what becomes of the lost entries.
-- Entry numbers jump beyond all that may have been given out.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and `*`, the halt that the operator has seen, random part of the number,
--       mark of the new fork, microseconds until it opens, the operator's entry as JSON
-- reply {head, number of the last entry}; {head, 'S'}: the partition is not halted any more, or for
--       another reason
local refusal, now, last, replid, _, format = open_to_write()
if refusal then
    return refusal
end
if redis.call('HGET', KEYS[1], 'halt') ~= ARGV[3] then
    return { reply_head(now, replid, 0), 'S' }
end
local lost_fork, acknowledged = string.match(ARGV[3], '^(%x+) (%d+) ')
local forked = number_of_fork(math.max(last, tonumber(acknowledged)), now, tonumber(ARGV[4]))
local entry = string.format('{"kind":"forked","replid":"%s","base":%s,"mark":%s}', replid,
    digits(last), ARGV[5])
local digits_now, count = digits(now), last_number(KEYS[1])
allow_full_memory()
if not append(last, forked, 't', digits_now, 'n', 1, 'j', entry,
    numbered(format, count + 1, ARGV[5])) then
    return ledger_is_gone()
end
redis.call('XADD', KEYS[2], digits(forked + 1) .. '-0', 't', digits_now, 'n', 1, 'j', ARGV[7],
    numbered(format, count + 2, ARGV[5]))
if format >= FULL_ENTRIES_FORMAT then
    redis.call('HSET', KEYS[1], 'entries', digits(count + 2), 'jumps', jumps_with(last, forked))
end
local time = server_time()
redis.call('HSET', KEYS[1], 'sequence', digits(forked + 1), 'last', digits_now, 'mark', ARGV[5],
    'fork:' .. lost_fork, '*',
    'opens', digits(time) .. ' ' .. digits(time + tonumber(ARGV[6])))
redis.call('HDEL', KEYS[1], 'halt')
return { reply_head(now, replid, 0), digits(forked + 1) }
