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
local kept = redis.call('HGET', KEYS[2], ARGV[3])
if not kept then
    -- Entries that wait on a full server can be settled only with these few bytes.
    allow_full_memory()
    redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
    kept = ARGV[4]
end
return { reply_head(now, replid, 0), kept }
