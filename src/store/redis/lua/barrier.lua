-- Writes to a partition without a change: once replicas have confirmed this, they have all that the
-- server wrote before.
--
-- KEYS  partition
-- reply 1; 0: there is no such partition, nothing was written
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
-- A full server refuses the first write of a script if that may need memory, and no later one. What
-- was written before must be confirmed there too, so the first write here needs none.
redis.call('HDEL', KEYS[1], 'none')
redis.call('HSET', KEYS[1], 'barrier', '1')
return 1
