// A C++20 generator coroutine, resumed ten thousand times.
// flags: -O2 -std=c++20
#include <coroutine>
#include <cstdio>
#include <exception>

struct Generator {
    struct promise_type {
        long current = 0;
        Generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(long value) {
            current = value;
            return {};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
    ~Generator() { handle.destroy(); }
};

static Generator squares(long count) {
    for (long i = 0; i < count; i++)
        co_yield i *i;
}

int main() {
    Generator generator = squares(10000);
    long sum = 0;
    while (generator.handle.resume(), !generator.handle.done())
        sum += generator.handle.promise().current;
    std::printf("%ld\n", sum);
}
