-- Every id in order, for lists, in blocks: a small zset takes a quarter of the room of a large one. `ids` has the first
-- place of each block (score 0; '' is before all), ids:<place> the ids from there up to the next place. A block that is
-- broken costs the listing of its jobs, never a step.
local BLOCK = 32 -- every so many new jobs one begins a block

local function key_of(block) return ROOT .. 'ids:' .. block end

-- The block that an id belongs to, if it is there already.
local function block_of(id) return call('ZREVRANGEBYLEX', IDS, '[' .. id, '-', 'LIMIT', '0', '1')[1] end

local function close_if_empty(block)
  if pcall_redis('ZCARD', key_of(block)) == 0 then call('ZREM', IDS, block) end
end

-- A block from this id on; what comes after it in the block before moves over.
local function open_block(id, before)
  call('ZADD', IDS, '0', id)
  local later = pcall_redis('ZRANGEBYLEX', key_of(before), '[' .. id, '+')
  for at = 1, #later do
    pcall_redis('ZADD', key_of(id), '0', later[at])
    call('ZREM', key_of(before), later[at])
  end
  if later[1] then close_if_empty(before) end
end

-- `block`: what `block_of` said, if it was asked already.
local function enlist(id, seq, block)
  block = block or block_of(id)
  if not block then
    block = ''
    call('ZADD', IDS, '0', block)
  elseif seq % BLOCK == 0 and block ~= id then
    open_block(id, block)
    block = id
  end
  pcall_redis('ZADD', key_of(block), '0', id)
end
