// Exceptions through many frames, rethrown, nested, out of constructors, between threads,
// across a library's frames, and one that ends a function with a destructor that runs.
// flags: -O2 -pthread
#include <algorithm>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "expect.h"

static int destroyed;
struct Guard {
    ~Guard() { destroyed++; }
};

static __attribute__((noinline)) int dive(int depth) {
    Guard guard;
    if (depth == 0)
        throw std::runtime_error("bottom");
    return dive(depth - 1) + 1;
}

struct Half {
    Guard first;
    Half() { throw 5; }
};

int main() {
    long caught = 0;
    for (int i = 0; i < 120; i++) {
        try {
            dive(i % 40);
        } catch (const std::exception &problem) {
            caught += problem.what() == std::string("bottom");
        }
    }
    try {
        Half half;
    } catch (int five) {
        caught += five;
    }
    try {
        try {
            throw std::string("inner");
        } catch (std::string &) {
            std::throw_with_nested(std::logic_error("outer"));
        }
    } catch (const std::logic_error &outer) {
        try {
            std::rethrow_if_nested(outer);
        } catch (const std::string &inner) {
            caught += inner == "inner";
        }
    }
    std::future<int> other = std::async(std::launch::async, [] { return dive(10); });
    try {
        other.get();
    } catch (const std::runtime_error &) {
        caught++;
    }
    std::vector<int> numbers(100);
    try {
        std::for_each(numbers.begin(), numbers.end(), [](int) { throw 1; });
    } catch (int one) {
        caught += one;
    }
    try {
        numbers.at(1000);
    } catch (const std::out_of_range &) {
        caught++;
    }
    std::printf("%ld %d\n", caught, destroyed);
}
