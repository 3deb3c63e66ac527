// Objects that threads share until the last one lets go.
#include <memory>
#include <pthread.h>
#include <thread>
static pthread_barrier_t together;
struct Object {
    long value = 0;
    ~Object() { value = -1; }
};
static void use(std::shared_ptr<Object> object) {
    pthread_barrier_wait(&together);
    for (int round = 0; round < 20; round++) {
#ifdef RACY
        object->value++; // race: -
#else
        volatile long seen = object->value;
        (void)seen;
#endif
        asm volatile("" ::: "memory");
    }
}
int main() {
    pthread_barrier_init(&together, nullptr, 2);
    auto object = std::make_shared<Object>();
    std::thread first(use, object), second(use, object);
    object.reset();
    first.join();
    second.join();
    return 0;
}
