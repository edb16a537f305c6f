-- Reads which users have which packets of an envelope.
--
-- KEYS  partition, then buckets of grabs
-- ARGV  clock, store id and witnesses
-- reply {now, then for each bucket: users and packets in turn}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
local reply = { digits(now) }
for index = 2, #KEYS do
    reply[index] = redis.call('HGETALL', KEYS[index])
end
return reply
