-- The probe of a service: whether the partition is there and whole, and takes writes. So it writes,
-- but changes nothing; only, now and then, it notes that a service of this format is alive (see
-- `upgrade.lua`).
--
-- KEYS  partition, ledger, then further keys of the partition
-- ARGV  clock, store id and witnesses, then the type of each further key
-- reply {head}; {head, text}: what is wrong with the ledger or with a key
local partition = store.open(store.WRITE)
if partition.refusal then
    return partition.refusal
end
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local number = newest and tonumber(string.match(newest[1], '^%d+')) or 0
if number ~= partition.sequence then
    return {
        store.head(partition, 0),
        KEYS[2] .. ' ends with entry ' .. store.digits(number) .. ', but ' .. store.digits(partition.sequence) ..
            ' was written: it was deleted, or cut off',
    }
end
for index = 3, #KEYS do
    local found = redis.call('TYPE', KEYS[index]).ok
    if found ~= 'none' and found ~= ARGV[index] then
        return { store.head(partition, 0), KEYS[index] .. ' is of type ' .. found .. ', not ' .. ARGV[index] }
    end
end
local NOTED = 10 * 1000000
local reader = 'reader:' .. FORMAT
local noted = tonumber(redis.call('HGET', KEYS[1], reader) or 0)
redis.call('HSET', KEYS[1], 'store', string.sub(ARGV[2], 1, 32), reader,
    store.digits(partition.now - noted < NOTED and noted or partition.now))
return { store.head(partition, 0) }
