-- Adds campaigns that are missing in the index of due campaigns and not closed, as due at once.
--
-- KEYS  partition, due campaigns, campaigns
-- ARGV  clock, store id and witnesses, ids of these campaigns
-- reply {head, how many were added}
local refusal, now, _, replid = open_to_write()
if refusal then
    return refusal
end
local added = 0
for index = 3, #KEYS do
    local lifecycle = redis.pcall('HGET', KEYS[index], 'lifecycle')
    -- A key that is no hash is left alone: the campaign's steps report it.
    if type(lifecycle) == 'string' and lifecycle ~= tostring(LIFECYCLE_CLOSED) then
        added = added + redis.call('ZADD', KEYS[2], 'NX', 0, ARGV[index])
    end
end
return { reply_head(now, replid, 0), digits(added) }
