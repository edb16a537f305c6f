-- Reads the records of the users that an operation is about to change.
--
-- KEYS  partition, then each user's hash
-- ARGV  clock, store id and witnesses, then each user's field
-- reply {now, for each user: the record, or nil}
local refusal, now = open_to_read()
if refusal then
    return refusal
end
local records = {}
for index = 2, #KEYS do
    records[index - 1] = redis.call('HGET', KEYS[index], ARGV[index + 1])
end
return { digits(now), records }
