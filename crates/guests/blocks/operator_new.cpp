// What C++ allocates, by itself and in what its library offers.
#include <memory>
#include <vector>
#include "../races/twin.h"
struct alignas(64) Aligned {
    long parts[16];
};
static long *array;
static std::vector<long> numbers;
static std::unique_ptr<Aligned> aligned;
static void work(long number) {
    long index = 7 UNLESS_RACY(+ number);
    array[index] = 1; // race: -, of array
    KEEP;
    numbers.data()[index] = 1; // race: -, of numbers
    KEEP;
    aligned.get()->parts[index] = 1; // race: -, of aligned
    KEEP;
    (void)number;
}
int main() {
    array = new long[50]; // allocated: array 400
    numbers = std::vector<long>(60); // allocated: numbers 480
    aligned.reset(new Aligned); // allocated: aligned 128
    run_threads();
    return 0;
}
