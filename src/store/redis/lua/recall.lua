-- Reads what steps have left for their retries: the same field of several hashes.
--
-- KEYS  partition, hashes
-- ARGV  clock, store id and witnesses, field
-- reply {head, the value in each hash}; what is missing is nil
--       The head names the fork (see find.lua).
local refusal, now, _, replid = open_to_read()
if refusal then
    return refusal
end
local reply = { reply_head(now, replid, 0) }
for index = 2, #KEYS do
    reply[index] = redis.call('HGET', KEYS[index], ARGV[3])
end
return reply
