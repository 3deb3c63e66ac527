// What a thread of C11 has written is read behind its end, or before it.
#include <threads.h>
long result;
static int work(void *nothing) {
    (void)nothing;
    result = 7; // race: result
    return 0;
}
int main(void) {
    thrd_t thread;
    thrd_create(&thread, work, 0);
#ifdef RACY
    long seen = result; // race: result
    thrd_join(thread, 0);
#else
    thrd_join(thread, 0);
    long seen = result;
#endif
    return seen == 1;
}
