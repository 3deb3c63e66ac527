// A value is handed over under a condition variable of C++; the racy twin writes it behind that.
#define OWN_THREADS
#include "twin.h"
#include <condition_variable>
#include <mutex>
#include <thread>
static std::mutex mutex;
static std::condition_variable changed;
static bool is_there;
long value;
int main() {
    std::thread giver([] {
        UNLESS_RACY(value = 1;)
        {
            std::lock_guard lock(mutex);
            is_there = true;
        }
        changed.notify_one();
        IF_RACY(value = 1;) // race: value
        KEEP;
    });
    {
        std::unique_lock lock(mutex);
        changed.wait(lock, [] { return is_there; });
    }
    long seen = value; // race: value
    KEEP;
    giver.join();
    return seen == 2;
}
