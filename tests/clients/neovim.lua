-- Runs the function `scenario` of a test as a coroutine beside the editor's own loop, so that what is typed is typed.
local answers = {}
local seconds = 30

function answer(name, value)
  answers[name] = value
end

--- Wait until something holds; an error says what was waited for.
function wait_for(what, holds)
  local last = vim.loop.now() + 1000 * seconds
  while vim.loop.now() < last do
    local value = holds()
    if value and value ~= vim.NIL then
      return value
    end
    coroutine.yield()
  end
  error("waited in vain for " .. what)
end

function pause(milliseconds)
  local last = vim.loop.now() + milliseconds
  while vim.loop.now() < last do
    coroutine.yield()
  end
end

function client()
  return (vim.lsp.get_clients or vim.lsp.get_active_clients)()[1]  -- the latter before 0.10
end

--- Open a file, and wait until the server has seen it.
function open(name)
  vim.cmd("edit " .. vim.fn.fnameescape(name))
  wait_for("the server", function()
    return client() and vim.lsp.buf_is_attached(0, client().id) and client().initialized
  end)
end

--- Open a file, and wait until something is found in it.
function open_with_findings(name)
  open(name)
  wait_for("diagnostics in " .. name, function()
    return #vim.diagnostic.get(0) > 0
  end)
end

function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), "\n") .. "\n"
end

function type_keys(keys)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(keys, true, false, true), "t", false)
end

--- End the server, for which an editor that is left allows half a second.
local function stop()
  local id = client() and client().id
  if id then
    vim.lsp.stop_client(id)
    wait_for("the server to end", function()
      return vim.lsp.client_is_stopped(id)
    end)
  end
end

local function finish(failure)
  vim.fn.writefile({ vim.fn.json_encode(answers) }, vim.env.HOME .. "/answers.json")
  if failure then
    io.stderr:write(failure .. "\n")
    vim.cmd("cquit 1")
  end
  vim.cmd("qall!")
end

vim.schedule(function()
  local running = coroutine.create(function()
    scenario()
    stop()
  end)
  local timer = vim.loop.new_timer()
  local is_busy = false
  timer:start(20, 20, vim.schedule_wrap(function()
    if is_busy or not timer:is_active() then
      return
    end
    is_busy = true
    local went, failure = coroutine.resume(running)
    is_busy = false
    if coroutine.status(running) == "dead" then
      timer:stop()
      finish(not went and debug.traceback(running, failure) or nil)
    end
  end))
end)
