// Fibres of Boost.Context: thousands of switches, exceptions inside, and stacks unwound when
// a fibre is destroyed before its end.
// flags: -O2 -std=c++17
// libraries: -lboost_context
// needs: file /usr/include/boost/context/fiber.hpp
#include <boost/context/fiber.hpp>
#include <stdexcept>
#include <vector>

#include "expect.h"

namespace context = boost::context;

static int destroyed;

struct Counted {
    ~Counted() { destroyed++; }
};

int main() {
    long sum = 0;
    std::vector<context::fiber> fibres;
    for (int number = 0; number < 20; number++) {
        fibres.emplace_back([number, &sum](context::fiber &&back) {
            for (int step = 0; step < 500; step++) {
                try {
                    if (step % 50 == number)
                        throw std::runtime_error("now and then");
                    sum += step;
                } catch (const std::runtime_error &) {
                    sum += 1000000;
                }
                back = std::move(back).resume();
            }
            return std::move(back);
        });
    }
    for (bool more = true; more;) {
        more = false;
        for (auto &fibre : fibres)
            if (fibre) {
                fibre = std::move(fibre).resume();
                more = true;
            }
    }
    {
        context::fiber unfinished([](context::fiber &&back) {
            Counted counted;
            for (;;)
                back = std::move(back).resume();
            return std::move(back);
        });
        unfinished = std::move(unfinished).resume();
    }
    EXPECT(destroyed == 1);
    printf("%ld\n", sum);
    return 0;
}
