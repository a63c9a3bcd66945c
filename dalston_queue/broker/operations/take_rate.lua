#!lua flags=allow-oom
-- Counts one request of a sliding window, or says how long to wait. A refused request is not counted.
-- KEYS  1 rate
-- ARGV  1 name of this request, unique  2… pairs of limit and window in ms, the longest window last
-- Returns 0, or the ms to wait. Repeatable: a name that is counted already answers 0 and counts once.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
local longest = tonumber(ARGV[#ARGV])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - longest)
local wait = 0
for i = 2, #ARGV, 2 do
    local limit, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
    if redis.call('ZCOUNT', KEYS[1], '(' .. (now - window), '+inf') >= limit then
        local first = redis.call('ZREVRANGE', KEYS[1], limit - 1, limit - 1, 'WITHSCORES')
        wait = math.max(wait, tonumber(first[2]) + window - now)
    end
end
if wait > 0 then return wait end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], longest)
return 0
