-- Says why the hash of a campaign was not found.
--
-- KEYS  partition, campaigns, campaign, removed campaigns
-- ARGV  clock, store id and witnesses, the campaign's id, its field among removed campaigns
-- reply {now, 1 if it is listed and its hash is gone, else 0, its end if it was removed}
local refusal, now = open_to_look()
if refusal then
    return refusal
end
local is_gone = redis.call('EXISTS', KEYS[3]) == 0 and redis.call('ZSCORE', KEYS[2], ARGV[3])
return { digits(now), is_gone and '1' or '0', redis.call('HGET', KEYS[4], ARGV[4]) }
