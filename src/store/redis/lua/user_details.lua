-- Reads a user's record, and whether the user is blocked.
--
-- KEYS  partition, the user's hash of users, blocked, blocks
-- ARGV  clock, store id and witnesses, the user's field, the lower and the upper bound of the
--       user's member of blocks
-- reply {now, the record if there is one, 1 if the user is blocked (else 0), the user's member of
--       blocks if there is one}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
return {
    digits(now),
    redis.call('HGET', KEYS[2], ARGV[3]),
    redis.call('SISMEMBER', KEYS[3], ARGV[3]),
    redis.call('ZRANGEBYLEX', KEYS[4], ARGV[4], ARGV[5])[1] or false,
}
