-- The rest of parts/ids.lua: out of the list, and along it.
local function delist(ids)
  local of = {} -- block -> those of its ids
  for _, id in ipairs(ids) do
    local block = block_of(id)
    if block then
      local some = of[block] or {}
      of[block], some[#some + 1] = some, id
    end
  end
  for block, some in pairs(of) do
    pcall_redis('ZREM', key_of(block), unpack(some))
    close_if_empty(block)
  end
end

-- Up to `limit` ids below `after` ('' = all), the last first, or above it, the first first.
local function ids_from(after, limit, is_above)
  local command, far = is_above and 'ZRANGEBYLEX' or 'ZREVRANGEBYLEX', is_above and '+' or '-'
  local near = after ~= '' and '(' .. after or (is_above and '-' or '+')
  local first = is_above and after ~= '' and block_of(after)
  local found, from = {}, first and '[' .. first or near
  while true do
    local blocks = call(command, IDS, from, far, 'LIMIT', '0', '50')
    for _, block in ipairs(blocks) do
      local ids = pcall_redis(command, key_of(block), near, far, 'LIMIT', '0', limit - #found)
      for at = 1, #ids do found[#found + 1] = ids[at] end
      if #found >= limit then return found end
      from = '(' .. block
    end
    if #blocks < 50 then return found end
  end
end
