-- Forgets requests: begins a generation when the memory's window has passed since the last one began, and removes the buckets of
-- the one that nobody reads any more, some at a time. Where services remember for different times, the longest counts.
--
-- KEYS  partition, then some keys of the generation that is removed
-- ARGV  clock, store id, generation, request memory in microseconds, number of the first of these keys, number of all of them
-- reply {now, 'L'}: the store is not the one it was; {now, generation, number of the next key to remove}
local store, last, generation, began, cleared, memory =
    unpack(redis.call('HMGET', KEYS[1], 'store', 'last', 'generation', 'began', 'cleared', 'memory'))
local now = clock(last)
if store ~= ARGV[2] then
    return { digits(now), 'L' }
end
if generation == ARGV[3] and cleared == ARGV[5] and #KEYS > 1 then
    redis.call('UNLINK', unpack(KEYS, 2))
    cleared = digits(tonumber(cleared) + #KEYS - 1)
    redis.call('HSET', KEYS[1], 'cleared', cleared)
end
if tonumber(ARGV[4]) > (tonumber(memory) or 0) then
    memory = ARGV[4]
    redis.call('HSET', KEYS[1], 'memory', memory)
end
if tonumber(cleared) >= tonumber(ARGV[6]) and now - tonumber(began) > tonumber(memory) then
    generation, cleared = digits(tonumber(generation) + 1), '0'
    -- Every service tells its own anew, long before this generation ends.
    redis.call('HSET', KEYS[1], 'generation', generation, 'began', digits(now), 'cleared', cleared, 'memory', '0', 'last', digits(now))
end
return { digits(now), generation, cleared }
