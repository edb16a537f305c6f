-- Adds campaigns that are missing in the index of due campaigns, as due at once, or in that of
-- closed campaigns, as closed now.
--
-- KEYS  partition, due campaigns, closed campaigns, campaigns
-- ARGV  clock, store id and witnesses, ids of these campaigns
-- reply {head, how many were added}
local refusal, now, _, replid = open_to_write()
if refusal then
    return refusal
end
local added = 0
for index = 4, #KEYS do
    local lifecycle = redis.pcall('HGET', KEYS[index], 'lifecycle')
    -- A key that is no hash is left alone: the campaign's steps report it.
    if lifecycle == tostring(LIFECYCLE_CLOSED) then
        added = added + redis.call('ZADD', KEYS[3], 'NX', digits(now), ARGV[index - 1])
    elseif type(lifecycle) == 'string' then
        added = added + redis.call('ZADD', KEYS[2], 'NX', 0, ARGV[index - 1])
    end
end
return { reply_head(now, replid, 0), digits(added) }
