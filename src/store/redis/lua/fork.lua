-- Records a fork: another server serves the partition than before. The numbers of entries go on a
-- random step further, so that none is used that the server before may have given out, and writes
-- wait until all living services had time to speak.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, step of the numbers, microseconds until the fork opens
-- reply {head}: the fork is recorded, by this call or by another one (see store.lua)
local partition = store.open(store.READ)
if partition.refusal then
    return partition.refusal
end
local replid = store.server_replid()
if replid ~= partition.replid then
    local base, number = partition.sequence, partition.sequence + tonumber(ARGV[3])
    local mark = tonumber(string.sub(replid, 1, 6), 16)
    if mark == 0 then
        mark = 1
    end
    local entry = string.format('{"kind":"forked","replid":"%s","base":%s,"mark":%d}', replid, store.digits(base), mark)
    if not store.append(partition, number, 't', store.digits(partition.now), 'n', 1, 'j', entry) then
        return store.ledger_is_gone()
    end
    local time = store.server_time()
    local fields = {
        'sequence', store.digits(number), 'last', store.digits(partition.now), 'replid', replid, 'fork:' .. replid, '', 'mark', mark,
        'opens', store.digits(time) .. ' ' .. store.digits(time + tonumber(ARGV[4])),
    }
    if partition.replid then
        fields[#fields + 1] = 'fork:' .. partition.replid
        fields[#fields + 1] = store.digits(base)
    end
    redis.call('HSET', KEYS[1], unpack(fields))
    partition.replid = replid
end
return { store.head(partition, 0) }
