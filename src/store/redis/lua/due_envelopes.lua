-- Lists envelopes whose refund, or whose removal, is due, the longest due first.
--
-- KEYS  partition, open envelopes, settled envelopes
-- ARGV  clock, store id and witnesses, for how long settled ones are kept (microseconds), most ids
-- reply {now, ids}
local refusal, now = open_to_read()
if refusal then
    return refusal
end
local most = tonumber(ARGV[4])
local ids = redis.call('ZRANGE', KEYS[2], '-inf', digits(now), 'BYSCORE', 'LIMIT', 0, most)
local kept_until = digits(now - tonumber(ARGV[3]))
local settled = redis.call(
    'ZRANGE', KEYS[3], '-inf', kept_until, 'BYSCORE', 'LIMIT', 0, most - #ids)
for _, id in ipairs(settled) do
    ids[#ids + 1] = id
end
return { digits(now), ids }
