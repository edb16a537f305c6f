-- Reads the answer of a remembered draw.
--
-- KEYS  partition, campaign, the user's hash, the bucket of the user's older draws, long draws
-- ARGV  clock, store id and witnesses, user field, request field
-- reply {now, 'M'}: no such campaign
--       {now, the user's record, the draw if it has a field of its own}; what is missing is nil
local refusal, now = open_to_read()
if refusal then
    return refusal
end
if redis.call('EXISTS', KEYS[2]) == 0 then
    return { digits(now), 'M' }
end
local record, draw = redis.call('HGET', KEYS[3], ARGV[3]), redis.call('HGET', KEYS[4], ARGV[4])
if draw == '' then
    draw = redis.call('HGET', KEYS[5], ARGV[4])
end
return { digits(now), record, draw }
