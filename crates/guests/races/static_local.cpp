// A static local is made once, under the guard of the C++ library.
#include <thread>
#include <pthread.h>
struct Table {
    long values[8];
    Table() {
        for (long index = 0; index < 8; index++)
            values[index] = index;
    }
};
long counter;
static pthread_barrier_t together;
static void use() {
    pthread_barrier_wait(&together);
    static Table table;
    volatile long seen = table.values[3];
    (void)seen;
#ifdef RACY
    counter++; // race: counter
#endif
}
int main() {
    pthread_barrier_init(&together, nullptr, 2);
    std::thread first(use), second(use);
    first.join();
    second.join();
    return 0;
}
