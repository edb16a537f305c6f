-- Reads what a partition says of itself; where it says nothing, and the caller names a store, makes it part of that.
--
-- KEYS  partition
-- ARGV  clock, store id (empty: only read), partitions, fingerprint of the master key, 1 on a test clock,
--       keys of a generation of requests
-- reply {now, store id, partitions, fingerprint, test clock, last moment, 1 where the store is whole}; what is not there is false
local function field(name)
    return redis.call('HGET', KEYS[1], name)
end
local now = clock(field('last'))
if not field('store') and ARGV[2] ~= '' then
    redis.call('HSET', KEYS[1], 'store', ARGV[2], 'partitions', ARGV[3], 'key', ARGV[4], 'test_clock', ARGV[5],
        'sequence', '0', 'last', '0', 'generation', '1', 'began', digits(now), 'cleared', ARGV[6])
end
return { digits(now), field('store'), field('partitions'), field('key'), field('test_clock'), field('last'), field('whole') }
