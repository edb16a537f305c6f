-- Reads what a remembered draw answered.
--
-- KEYS  partition, campaign, the user's hash, the bucket of the user's older draws, long draws
-- ARGV  clock, store id and witnesses, user field, request field
-- reply {now, 'M'}: no such campaign
--       {now, the user's record, the draw in a field of its own}, each where there is one
local partition = store.open(store.READ)
if partition.refusal then
    return partition.refusal
end
local now = partition.now
if redis.call('EXISTS', KEYS[2]) == 0 then
    return { store.digits(now), 'M' }
end
local record, draw = redis.call('HGET', KEYS[3], ARGV[3]), redis.call('HGET', KEYS[4], ARGV[4])
if draw == '' then
    draw = redis.call('HGET', KEYS[5], ARGV[4])
end
return { store.digits(now), record, draw }
