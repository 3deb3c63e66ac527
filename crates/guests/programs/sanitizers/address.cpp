// Built with the address sanitizer: it finds a use after free, and says where.
// flags: -O1 -fsanitize=address -fno-omit-frame-pointer
// needs: file /usr/lib/x86_64-linux-gnu/libasan.so.8
// compare: status
// ending: exit 23
// trace: no
#include <cstring>
#include <thread>
#include <vector>

#include "expect.h"

extern "C" int __asan_address_is_poisoned(void const volatile *address);

// A status that nothing else ends with.
extern "C" const char *__asan_default_options() { return "exitcode=23"; }

int main() {
    char *array = new char[100];
    memset(array, 1, 100);
    EXPECT(!__asan_address_is_poisoned(array + 99) && __asan_address_is_poisoned(array + 100));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([] {
            for (int j = 0; j < 1000; j++)
                delete[] new int[j + 1]();
        });
    for (auto &thread : threads)
        thread.join();
    try {
        throw 5;
    } catch (int) {
    }
    char *volatile freed = array;
    delete[] array;
    EXPECT(__asan_address_is_poisoned(freed));
    return freed[50];
}
