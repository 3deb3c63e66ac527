// A promise tells when a value is there; the racy twin writes it behind that.
#define OWN_THREADS
#include "twin.h"
#include <future>
#include <thread>
long value;
int main() {
    std::promise<void> promise;
    std::future<void> future = promise.get_future();
    std::thread giver([&] {
        UNLESS_RACY(value = 1;)
        promise.set_value();
        IF_RACY(value = 1;) // race: value
        KEEP;
    });
    future.wait();
    long seen = value; // race: value
    KEEP;
    giver.join();
    return seen == 2;
}
