// What stands in a section that must end before another can begin does not come beside that one.
#include "../races/twin.h"

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static volatile int value;
static int told;

static void work(long number) {
    if (number == 0) {
        pthread_mutex_lock(&outer);
        value = 1; // race: value
        pthread_mutex_lock(&inner);
        told = 1;
        pthread_mutex_unlock(&inner);
        pthread_mutex_unlock(&outer);
    } else {
        usleep(100000);
        UNLESS_RACY(pthread_mutex_lock(&outer));
        UNLESS_RACY(pthread_mutex_unlock(&outer));
        pthread_mutex_lock(&inner);
        UNLESS_RACY(if (told))
            value = 2; // race: value
        pthread_mutex_unlock(&inner);
    }
}

int main(void) {
    run_threads();
    return value == 3;
}
