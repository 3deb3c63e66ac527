// A value that std::atomic publishes, in the heap, where no variable has its type.
#include <atomic>
#include <pthread.h>
#include <thread>
static pthread_barrier_t together;
struct Box {
    std::atomic<int> ready{0};
    long value = 0;
};
int main() {
    pthread_barrier_init(&together, nullptr, 2);
    Box *box = new Box;
    std::thread writer([box] {
        pthread_barrier_wait(&together);
#ifndef RACY
        box->value = 42;
#endif
        box->ready.store(1, std::memory_order_release);
#ifdef RACY
        box->value = 42; // race: -
#endif
    });
    std::thread reader([box] {
        pthread_barrier_wait(&together);
        while (!box->ready.load(std::memory_order_acquire))
            std::this_thread::yield();
        volatile long seen = box->value; // race: -
        (void)seen;
    });
    writer.join();
    reader.join();
    return 0;
}
