-- Numbers as `cmsgpack.pack` packs them, which takes longer.
--
-- Gives  byte, six, three, sequence_head
local char = string.char

-- A byte each, made once.
local byte = setmetatable({}, {
    __index = function(made, number)
        made[number] = char(number)
        return made[number]
    end,
})

-- Small ones are a byte each.
local function six(a, b, c, d, e, f)
    if a < 128 and b < 128 and c < 128 and d < 128 and e < 128 and f < 128 then
        return char(a, b, c, d, e, f)
    end
    return cmsgpack.pack(a, b, c, d, e, f)
end

local function three(a, b, c)
    if a < 128 and b < 128 and c < 128 then
        return char(a, b, c)
    end
    return cmsgpack.pack(a, b, c)
end

-- A sequence number without its last byte, as `pack` packs it: in four bytes, or in eight.
local function sequence_head(number)
    if number < 4294967296 then
        return string.sub(struct.pack('>BI4', 0xce, number), 1, 4)
    end
    return string.sub(struct.pack('>BI8', 0xcf, number), 1, 8)
end

return { byte = byte, six = six, three = three, sequence_head = sequence_head }
