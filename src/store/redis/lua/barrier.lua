-- Writes to a partition without a change: once replicas have confirmed this, they have all that the
-- server wrote before.
--
-- KEYS  partition
-- reply 1; 0: there is no such partition, nothing was written
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
-- What was written before must be confirmed on a full server too.
allow_full_memory()
redis.call('HSET', KEYS[1], 'barrier', '1')
return 1
