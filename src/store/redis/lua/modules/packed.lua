-- Numbers as `cmsgpack.pack` packs them, which takes longer.
--
-- Gives  pack_six, pack_three, pack_sequence_head
local char = string.char

-- Small ones are a byte each.
local function pack_six(a, b, c, d, e, f)
    if a < 128 and b < 128 and c < 128 and d < 128 and e < 128 and f < 128 then
        return char(a, b, c, d, e, f)
    end
    return cmsgpack.pack(a, b, c, d, e, f)
end

local function pack_three(a, b, c)
    if a < 128 and b < 128 and c < 128 then
        return char(a, b, c)
    end
    return cmsgpack.pack(a, b, c)
end

-- A sequence number without its last byte, as `pack` packs it: in four bytes, or in eight.
local function pack_sequence_head(number)
    if number < 4294967296 then
        return string.sub(struct.pack('>BI4', 0xce, number), 1, 4)
    end
    return string.sub(struct.pack('>BI8', 0xcf, number), 1, 8)
end

return pack_six, pack_three, pack_sequence_head
