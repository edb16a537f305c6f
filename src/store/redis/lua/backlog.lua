-- Counts the entries of a partition that are not settled.
--
-- KEYS  partition, ledger
-- ARGV  clock, store id and witnesses
-- reply {now, '1' if anything was ever settled and else '0', number of entries that are not
--       settled, moment of the oldest one (empty: none)}
local refusal, now, last = open_to_look()
if refusal then
    return refusal
end
local settled = settled_entry()
local _, left_out = jumps_after(settled or 0)
local oldest = last > (settled or 0) and oldest_after(settled or 0)
return {
    digits(now), settled and '1' or '0', digits(math.max(last - (settled or 0) - left_out, 0)),
    oldest and digits(oldest) or '',
}
