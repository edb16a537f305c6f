-- Reads the random bytes from which the pseudonyms of a campaign, or of all other entries of the
-- partition, are derived; makes them if there are none.
--
-- KEYS  partition, salts
-- ARGV  clock, store id and witnesses, campaign id (empty: all other entries), the bytes if there
--       are none
-- reply {head, the bytes}
local refusal, now, _, replid = open_to_write()
if refusal then
    return refusal
end
redis.call('HSETNX', KEYS[2], ARGV[3], ARGV[4])
return { reply_head(now, replid, 0), redis.call('HGET', KEYS[2], ARGV[3]) }
