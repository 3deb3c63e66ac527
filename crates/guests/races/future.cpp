// A future hands over a value.
#include <future>
#include <thread>
long value;
int main() {
    std::promise<void> promise;
    std::future<void> future = promise.get_future();
    std::thread reader([&] {
        future.wait();
        volatile long seen = value; // race: value
        (void)seen;
    });
#ifndef RACY
    value = 42;
#endif
    promise.set_value();
#ifdef RACY
    value = 42; // race: value
#endif
    reader.join();
    return 0;
}
