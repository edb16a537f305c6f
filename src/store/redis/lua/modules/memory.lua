-- Memory: draws that are remembered in fields of their own, since a user's record holds only the latest one. A draw lies in the bucket of
-- its user; if it is long, the bucket has an empty text and the draw lies in the campaign's hash of long draws.
--
-- Reads  a campaign `c`: oldest, long_key
-- Gives  find, move

-- The draw of a request, if it is remembered; `moved` are those that this script has given a field.
local function find(c, moved, bucket_key, request)
    local draw = moved[request] or redis.call('HGET', bucket_key, request)
    if draw == '' then
        draw = redis.call('HGET', c.long_key, request)
    end
    if draw and struct.unpack('>I7', draw) < c.oldest then
        return nil
    end
    return draw
end

-- Gives a draw a field of its own: in `moved`, and in `fields` as it will be written.
local function move(c, moved, fields, bucket_key, request, draw)
    moved[request] = draw
    if #draw > COMPACT_BYTES_MAX then
        redis.call('HLEN', c.long_key)
        fields[#fields + 1] = { c.long_key, request, draw }
        draw = ''
    end
    fields[#fields + 1] = { bucket_key, request, draw }
end

return { find = find, move = move }
