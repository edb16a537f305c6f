-- Reads users' records.
--
-- KEYS  partition, then each user's hash
-- ARGV  clock, store id and witnesses, then each user's field
-- reply {now, for each user: the record where there is one}
local refusal, now = open_to_read()
if refusal then
    return refusal
end
local records = {}
for place = 2, #KEYS do
    records[place - 1] = redis.call('HGET', KEYS[place], ARGV[place + 1])
end
return { digits(now), records }
