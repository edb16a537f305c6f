-- Reads the answer of a remembered draw.
--
-- KEYS  partition, campaign, the user's hash, the bucket of the user's older draws, long draws
-- ARGV  clock, store id and witnesses, user field, request field
-- reply {head, 'M'}: no such campaign
--       {head, the user's record, the draw if it has a field of its own}; what is missing is nil
--       The head names the fork, under which the service counts this draw among those that it has
--       acknowledged. Under an earlier fork it would look lost.
local refusal, now, _, replid = open_to_read()
if refusal then
    return refusal
end
local head = reply_head(now, replid, 0)
if redis.call('EXISTS', KEYS[2]) == 0 then
    return { head, 'M' }
end
local record, draw = redis.call('HGET', KEYS[3], ARGV[3]), redis.call('HGET', KEYS[4], ARGV[4])
if draw == '' then
    draw = redis.call('HGET', KEYS[5], ARGV[4])
end
return { head, record, draw }
