<?php
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
echo fib(24), "\n";
for ($sum = 0, $i = 0; $i < 1000000; $i++) { $sum = ($sum + $i * $i) % 1000003; }
echo $sum, "\n", preg_replace('/(\d+)/', '<$1>', "a1b22"), "\n";
echo json_encode(array_map(fn($x) => $x ** 2, range(1, 5))), "\n";
try { intdiv(1, 0); } catch (DivisionByZeroError $problem) { echo $problem->getMessage(), "\n"; }
echo opcache_get_status()["jit"]["on"] ? "compiled" : "interpreted", "\n";
