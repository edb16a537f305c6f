-- Reads a user's record and whether the campaign is still the version that the caller knows.
--
-- KEYS  partition, campaign, user's bucket
-- ARGV  clock, store id, user field
-- reply {now, 'L'}: the store is not the one it was; {now, 'M'}: no such campaign
--       {now, fields and values that tell of the campaign, record where there is one}
local store, last = unpack(redis.call('HMGET', KEYS[1], 'store', 'last'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
-- Not its counters, of which there is one for each queue.
local names = { 'version', 'lifecycle', 'touched', 'held', 'versions', 'nonce', 'commitment', 'blocked' }
local values = redis.call('HMGET', KEYS[2], unpack(names))
if not values[1] then
    return { digits(now), 'M' }
end
local fields = {}
for place, name in ipairs(names) do
    if values[place] then
        fields[#fields + 1] = name
        fields[#fields + 1] = values[place]
    end
end
return { digits(now), fields, redis.call('HGET', KEYS[3], ARGV[3]) }
