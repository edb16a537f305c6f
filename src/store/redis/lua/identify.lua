-- Reads the identity of a partition. If it has none and the caller names a store, makes it a
-- partition of that store, whose first fork is this server's.
--
-- KEYS  partition
-- ARGV  clock, store id (empty: only read), partitions, fingerprint of the master key, 1 on a test
--       clock, format of the data
-- reply {now, store id, format, partitions, fingerprint, test clock, last moment, 1 if the store is
--       whole, lowest format that a version must know to read it}; a missing field is false
local function read()
    return redis.call('HMGET', KEYS[1], 'store', 'format', 'partitions', 'key', 'test_clock',
        'last', 'whole', 'min_reader')
end
local fields = read()
local now = read_clock(fields[6])
if not fields[1] and ARGV[2] ~= '' then
    local replid = server_replid()
    redis.call('HSET', KEYS[1], 'store', ARGV[2], 'format', ARGV[6], 'min_reader', ARGV[6],
        'partitions', ARGV[3],
        'key', ARGV[4], 'test_clock', ARGV[5], 'sequence', '0', 'last', '0', 'began', digits(now),
        'replid', replid, 'fork:' .. replid, '', 'mark', '0')
    fields = read()
end
return { digits(now), unpack(fields) }
