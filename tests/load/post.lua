-- A wrk script: POSTs one file over and over and ends with one line of key=value pairs, times in milliseconds.
--   wrk -t1 -c8 -d5s --timeout 30s --latency -s post.lua URL -- FILE
local request_bytes

function init(args)
  local file = assert(io.open(args[1], "rb"))
  local body = assert(file:read("*a"))
  file:close()
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/octet-stream"
  request_bytes = wrk.format(nil, nil, nil, body)  -- built once: the client must cost little
end

function request()
  return request_bytes
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    "summary requests=%d rps=%.2f p50=%.3f p99=%.3f p99.9=%.3f errors=%d non2xx=%d\n",
    summary.requests, summary.requests / (summary.duration / 1e6),
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3,
    errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
