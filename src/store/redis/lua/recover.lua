-- Lets a halted partition go on, once an operator has decided what becomes of the lost entries.
-- Numbers go on beyond all that may have been given out.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and `*`, the halt that the operator has seen, step of the numbers, mark of
--       the fork from here on, microseconds
--       until it opens, the operator's entry as JSON
-- reply {head, number of the last entry}; {head, 'S'}: the partition is not halted any more, or for
--       another reason
local partition = store.open(store.WRITE)
if partition.refusal then
    return partition.refusal
end
if redis.call('HGET', KEYS[1], 'halt') ~= ARGV[3] then
    return { store.head(partition, 0), 'S' }
end
local replid, acknowledged = string.match(ARGV[3], '^(%x+) (%d+) ')
local base = partition.sequence
local forked = math.max(base, tonumber(acknowledged)) + tonumber(ARGV[4])
local entry = string.format('{"kind":"forked","replid":"%s","base":%s,"mark":%s}', partition.replid, store.digits(base), ARGV[5])
local now = store.digits(partition.now)
if not store.append(partition, forked, 't', now, 'n', 1, 'j', entry) then
    return store.ledger_is_gone()
end
redis.call('XADD', KEYS[2], store.digits(forked + 1) .. '-0', 't', now, 'n', 1, 'j', ARGV[7])
local time = store.server_time()
redis.call('HSET', KEYS[1], 'sequence', store.digits(forked + 1), 'last', now, 'mark', ARGV[5], 'fork:' .. replid, '*',
    'opens', store.digits(time) .. ' ' .. store.digits(time + tonumber(ARGV[6])))
redis.call('HDEL', KEYS[1], 'halt')
return { store.head(partition, 0), store.digits(forked + 1) }
