// std::call_once makes what all threads use.
#include <mutex>
#include <pthread.h>
#include <thread>
static pthread_barrier_t together;
static std::once_flag once;
long made, seen[2];
static void make() {
    made = 3; // race: made
    asm volatile("" ::: "memory");
}
static void work(int number) {
    pthread_barrier_wait(&together);
#ifdef RACY
    make();
#else
    std::call_once(once, make);
#endif
    seen[number] = made; // race: made
    asm volatile("" ::: "memory");
}
int main() {
    pthread_barrier_init(&together, nullptr, 2);
    std::thread first(work, 0), second(work, 1);
    first.join();
    second.join();
    return seen[0] != 3;
}
