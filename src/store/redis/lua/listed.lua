-- Tells whether a campaign whose hash was not found should be there.
--
-- KEYS  partition, campaigns, campaign
-- ARGV  clock, store id, the campaign's id
-- reply {now, 'L'}: the store is not the one it was; {now, 1 if it is listed and its hash is gone, else 0}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
local is_gone = redis.call('EXISTS', KEYS[3]) == 0 and redis.call('ZSCORE', KEYS[2], ARGV[3])
return { digits(now), is_gone and '1' or '0' }
