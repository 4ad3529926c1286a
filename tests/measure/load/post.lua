-- A wrk script: POSTs files in turn, again and again, and ends with one line of key=value pairs, times in milliseconds.
-- An argument that begins with & is not a file: it extends the query, and the body is empty.
--   wrk -t1 -c8 -d5s --timeout 30s --latency -s post.lua URL -- FILE...
local requests = {}
local turn = 0

function init(args)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/octet-stream"
  for _, path in ipairs(args) do
    local target, body = nil, ""
    if path:sub(1, 1) == "&" then
      target = wrk.path .. path
    else
      local file = assert(io.open(path, "rb"))
      body = file:read("*a")
      file:close()
    end
    requests[#requests + 1] = wrk.format(nil, target, nil, body)  -- built once: the client must cost little
  end
  assert(#requests > 0, "name a file to post behind --")
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency, _)
  local errors, seconds = summary.errors, summary.duration / 1e6
  io.write(string.format(
    "summary requests=%d rps=%.2f p50=%.3f p99=%.3f p99.9=%.3f errors=%d non2xx=%d received_bytes=%.0f seconds=%.3f\n",
    summary.requests, summary.requests / seconds,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3,
    errors.connect + errors.read + errors.write + errors.timeout, errors.status, summary.bytes, seconds))
end
