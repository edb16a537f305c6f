-- Records a fork: another server serves the partition than before. Entry numbers jump beyond all
-- that servers before may have given out. Writes wait until all running services have had time to
-- send their witnesses.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, random part of the number, microseconds until the fork opens
-- reply {head}: the fork is recorded, by this call or by another one (see store.lua)
local refusal, now, last, known_fork, _, format = open_to_read()
if refusal then
    return refusal
end
local replid = server_replid()
if replid ~= known_fork then
    local number = number_of_fork(last, now, tonumber(ARGV[3]))
    local mark = tonumber(string.sub(replid, 1, 6), 16)
    if mark == 0 then
        mark = 1
    end
    local entry = string.format('{"kind":"forked","replid":"%s","base":%s,"mark":%d}', replid,
        digits(last), mark)
    local count = last_number(KEYS[1]) + 1
    allow_full_memory()
    if not append(last, number, 't', digits(now), 'n', 1, 'j', entry,
        numbered(format, count, digits(mark))) then
        return ledger_is_gone()
    end
    local time = server_time()
    local fields = {
        'sequence', digits(number), 'last', digits(now), 'replid', replid, 'fork:' .. replid, '',
        'mark', mark,
        'opens', digits(time) .. ' ' .. digits(time + tonumber(ARGV[4])),
    }
    if known_fork then
        fields[#fields + 1] = 'fork:' .. known_fork
        fields[#fields + 1] = digits(last)
    end
    if format >= FULL_ENTRIES_FORMAT then
        fields[#fields + 1], fields[#fields + 2] = 'entries', digits(count)
        fields[#fields + 1], fields[#fields + 2] = 'jumps', jumps_with(last, number)
    end
    redis.call('HSET', KEYS[1], unpack(fields))
end
return { reply_head(now, replid, 0) }
