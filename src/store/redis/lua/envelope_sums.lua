-- Reads the sums of a partition's envelopes.
--
-- KEYS  partition, sums of envelopes
-- ARGV  clock, store id and witnesses
-- reply {now, names and values in turn, number of the partition's last entry}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
local head = redis.call('HGET', KEYS[1], 'sequence')
return { digits(now), redis.call('HGETALL', KEYS[2]), head }
