// Two accounts that std::scoped_lock locks together; the racy twin locks one of them.
#include "twin.h"
#include <mutex>
struct Account { std::mutex mutex; long money; };
Account accounts[2];
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        Account &from = accounts[number], &to = accounts[!number];
        UNLESS_RACY(std::scoped_lock lock(from.mutex, to.mutex);)
        from.money--; // race: accounts
        to.money++; // race: accounts
        KEEP;
    }
}
int main() {
    run_threads();
    return accounts[0].money == 7;
}
