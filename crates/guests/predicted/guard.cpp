// The same as behind_a_lock.c with what C++ has.
#include "../races/twin.h"
#include <mutex>

static std::mutex mutex;
static volatile long value;
static bool inside;

static void work(long number) {
    if (number == 0) {
        value = 1; // race: value
        std::lock_guard<std::mutex> guard(mutex);
        inside = true;
    } else {
        usleep(100000);
        {
            std::lock_guard<std::mutex> guard(mutex);
            UNLESS_RACY(if (!inside) return;)
        }
        value = 2; // race: value
    }
}

int main() {
    run_threads();
    return value == 3;
}
