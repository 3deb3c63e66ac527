def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
puts fib(22)
jobs = Queue.new
4.times.map { |i| Thread.new { 1000.times { |j| jobs << i * j } } }.each(&:join)
sum = 0
sum += jobs.pop until jobs.empty?
puts sum
fiber = Fiber.new { 10.times { |i| Fiber.yield i } }
puts 5.times.map { fiber.resume }.inspect
puts Process.wait2(fork { exit 7 })[1].exitstatus
begin
  Integer("none")
rescue ArgumentError => problem
  puts problem.message
end
GC.start
puts "a1b22".scan(/\d+/).inspect
