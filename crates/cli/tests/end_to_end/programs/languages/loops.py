# Compiled loops in threads, deep recursion, and the collector.
import threading, sys, gc
def work(n):
    d = {}
    for i in range(50000):
        d[i % 997] = d.get(i % 997, 0) + i
    return sum(d.values())
out = []
ts = [threading.Thread(target=lambda k=k: out.append(work(k))) for k in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sum(out))
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
try:
    depth(10 ** 7)
except RecursionError:
    print('recursion')
gc.collect(); sys.exit(6)
