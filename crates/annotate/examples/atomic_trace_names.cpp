// A program written for atomic-memory-trace, with unspool.h in place of its annotation.h.
//
//   g++ -pthread -I crates/annotate/include crates/annotate/examples/atomic_trace_names.cpp
#include <atomic>
#include <iostream>
#include <thread>
#include <vector>

#include "unspool.h"

int main()
{
    std::atomic<long> counter{0};
    std::vector<std::thread> threads;
    atomic_trace::start_roi();
    for (int number = 0; number < 4; number++)
        threads.emplace_back([&counter, number] {
            atomic_trace::register_thread(number);
            for (int i = 0; i < 250; i++)
                counter.fetch_add(1);
        });
    for (std::thread &thread : threads)
        thread.join();
    atomic_trace::end_roi();
    std::cout << counter << '\n';
}
