-- Reads what is not settled of a partition's ledger: items from the last settled entry on, that
-- one with them.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses, number of the last settled entry (0: none), most items
-- reply {head, replication id of the current fork, items}
local partition = store.open(store.READ)
if partition.refusal then
    return partition.refusal
end
return {
    store.head(partition, 0), partition.replid,
    redis.call('XRANGE', KEYS[2], ARGV[3] .. '-0', '+', 'COUNT', ARGV[4]),
}
