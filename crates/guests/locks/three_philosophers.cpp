// Three threads take two of three mutexes each: by std::scoped_lock, or one after the other.
// found: possible-deadlock
#include <mutex>
#include <thread>
#include <unistd.h>
static std::mutex forks[3];
static void eat(int place) {
#ifdef WRONG
    // One behind the other in time, and by nothing else: they must not come to the deadlock.
    usleep(place * 200000);
#endif
    std::mutex &left = forks[place], &right = forks[(place + 1) % 3];
#ifdef WRONG
    std::lock_guard<std::mutex> first(left);
    std::lock_guard<std::mutex> second(right);
#else
    std::scoped_lock both(left, right);
#endif
}
int main() {
    for (int place = 0; place < 3; place++)
        eat(place);
    std::thread one(eat, 0), two(eat, 1), three(eat, 2);
    one.join();
    two.join();
    three.join();
}
