-- For wrk: posts the bodies of a file (one to a line) in turn, round and round. The file is the first argument after `--`.
local requests, turn = {}, 0

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"

function init(args)
  local bodies = {}
  for body in io.lines(args[1]) do
    bodies[#bodies + 1] = body
  end
  if #bodies == 1 then -- wrk then makes the request once and runs no Lua for each
    wrk.body = bodies[1]
    return
  end
  for _, body in ipairs(bodies) do
    requests[#requests + 1] = wrk.format(nil, nil, nil, body)
  end
  function request()
    turn = turn % #requests + 1
    return requests[turn]
  end
end
