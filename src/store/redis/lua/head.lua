-- Reads the number of the last entry of a partition's ledger.
--
-- KEYS  partition
-- ARGV  clock, store id and witnesses
-- reply {now, number}
local refusal, now, sequence = open_to_look()
if refusal then
    return refusal
end
return { digits(now), digits(sequence) }
