-- Checks whether a campaign whose hash was not found is listed, so that its data are gone.
--
-- KEYS  partition, campaigns, campaign
-- ARGV  clock, store id and witnesses, the campaign's id
-- reply {now, 1 if it is listed and its hash is gone, else 0}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
local is_gone = redis.call('EXISTS', KEYS[3]) == 0 and redis.call('ZSCORE', KEYS[2], ARGV[3])
return { digits(now), is_gone and '1' or '0' }
