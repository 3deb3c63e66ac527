-- Compiled loops, calls into C and back, coroutines, errors, and the collector.
local ffi = require("ffi")
ffi.cdef[[ int strcmp(const char*, const char*); void qsort(void*, size_t, size_t, int (*)(const int*, const int*)); ]]
local s = 0
for i = 1, 2e6 do s = (s + i * i) % 1000003 end
print(s, ffi.C.strcmp("a", "b") < 0)
local a = ffi.new("int[100]"); for i = 0, 99 do a[i] = (i * 7919) % 100 end
local cb = ffi.cast("int (*)(const int*, const int*)", function(x, y) return x[0] - y[0] end)
ffi.C.qsort(a, 100, 4, cb); print(a[0], a[50], a[99])
local co = coroutine.wrap(function() for i = 1, 100000 do coroutine.yield(i) end end)
local t = 0; for i = 1, 100000 do t = t + co() end print(t)
print(select(2, pcall(error, "thrown", 0)))
local words = {}; for i = 1, 50000 do words[i % 1000] = ("w"):rep(i % 50) end collectgarbage() print(#words)
os.exit(4)
