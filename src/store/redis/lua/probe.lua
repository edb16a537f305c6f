-- The probe of a service: checks that the partition exists, is whole, and takes writes. For that it
-- writes without changing anything; except that now and then it notes that a service of this format
-- is running (see `upgrade.lua`).
--
-- KEYS  partition, ledger, then further keys of the partition
-- ARGV  clock, store id and witnesses, then the type of each further key
-- reply {head}; {head, text}: what is wrong with the ledger or with a key
local refusal, now, sequence, replid = open_to_write()
if refusal then
    return refusal
end
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local number = newest and tonumber(string.match(newest[1], '^%d+')) or 0
if number ~= sequence then
    return {
        reply_head(now, replid, 0),
        KEYS[2] .. ' ends with entry ' .. digits(number) .. ', but ' .. digits(sequence) ..
            ' was written: it was deleted, or cut off',
    }
end
for index = 3, #KEYS do
    local found = redis.call('TYPE', KEYS[index]).ok
    if found ~= 'none' and found ~= ARGV[index] then
        return { reply_head(now, replid, 0),
            KEYS[index] .. ' is of type ' .. found .. ', not ' .. ARGV[index] }
    end
end
local NOTED = 10 * 1000000
local reader = 'reader:' .. FORMAT
local noted = tonumber(redis.call('HGET', KEYS[1], reader) or 0)
redis.call('HSET', KEYS[1], 'store', string.sub(ARGV[2], 1, 32), reader,
    digits(now - noted < NOTED and noted or now))
return { reply_head(now, replid, 0) }
