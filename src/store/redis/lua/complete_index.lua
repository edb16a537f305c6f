-- Adds campaigns that are not closed to those that the injector has something to do with, where
-- they are missing: as due at once.
--
-- KEYS  partition, due campaigns, campaigns
-- ARGV  clock, store id and witnesses, ids of these campaigns
-- reply {head, how many were added}
local partition = store.open(store.WRITE)
if partition.refusal then
    return partition.refusal
end
local added = 0
for place = 3, #KEYS do
    local lifecycle = redis.pcall('HGET', KEYS[place], 'lifecycle')
    -- What is no hash stays: steps tell of it.
    if type(lifecycle) == 'string' and lifecycle ~= tostring(LIFECYCLE_CLOSED) then
        added = added + redis.call('ZADD', KEYS[2], 'NX', 0, ARGV[place])
    end
end
return { store.head(partition, 0), store.digits(added) }
