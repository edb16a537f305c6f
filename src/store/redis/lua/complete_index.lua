-- Adds campaigns that are not closed to those that the injector has something to do with, where
-- they are missing: as due at once.
--
-- KEYS  partition, due campaigns, campaigns
-- ARGV  clock, store id, ids of these campaigns
-- reply {now, 'L'}: the store is not the one it was; {now, how many were added}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
local added = 0
for place = 3, #KEYS do
    local lifecycle = redis.pcall('HGET', KEYS[place], 'lifecycle')
    -- What is no hash stays: steps tell of it.
    if type(lifecycle) == 'string' and lifecycle ~= '3' then
        added = added + redis.call('ZADD', KEYS[2], 'NX', 0, ARGV[place])
    end
end
return { digits(now), digits(added) }
