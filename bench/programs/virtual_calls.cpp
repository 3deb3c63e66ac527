// Expression trees evaluated by virtual calls, and plain recursion: indirect calls and
// returns, which a translator has to look up. Argument: number of evaluations.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

struct Expression {
    virtual ~Expression() = default;
    virtual std::uint64_t evaluate(std::uint64_t x) const = 0;
};

using Owned = std::unique_ptr<Expression>;

struct Variable : Expression {
    std::uint64_t evaluate(std::uint64_t x) const override { return x; }
};

struct Constant : Expression {
    explicit Constant(std::uint64_t value) : value(value) {}
    std::uint64_t evaluate(std::uint64_t) const override { return value; }
    std::uint64_t value;
};

struct Binary : Expression {
    Binary(Owned left, Owned right) : left(std::move(left)), right(std::move(right)) {}
    Owned left, right;
};

struct Sum : Binary {
    using Binary::Binary;
    std::uint64_t evaluate(std::uint64_t x) const override
    {
        return left->evaluate(x) + right->evaluate(x);
    }
};

struct Product : Binary {
    using Binary::Binary;
    std::uint64_t evaluate(std::uint64_t x) const override
    {
        return left->evaluate(x) * right->evaluate(x);
    }
};

struct Rotation : Binary {
    using Binary::Binary;
    std::uint64_t evaluate(std::uint64_t x) const override
    {
        std::uint64_t value = left->evaluate(x);
        unsigned by = right->evaluate(x) & 63;
        return value << by | value >> ((64 - by) & 63);
    }
};

std::uint64_t seed = 12345;

unsigned random_below(unsigned bound)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>(seed >> 33) % bound;
}

Owned random_tree(int depth)
{
    if (depth == 0) {
        if (random_below(2) == 0)
            return std::make_unique<Variable>();
        return std::make_unique<Constant>(random_below(1000) * 2 + 1);
    }
    Owned left = random_tree(depth - 1), right = random_tree(depth - 1);
    switch (random_below(3)) {
    case 0: return std::make_unique<Sum>(std::move(left), std::move(right));
    case 1: return std::make_unique<Product>(std::move(left), std::move(right));
    default: return std::make_unique<Rotation>(std::move(left), std::move(right));
    }
}

// Volatile, so that the compiler can neither inline the recursion away nor fold it.
__attribute__((noinline)) std::uint64_t fibonacci(volatile unsigned *calls, unsigned n)
{
    *calls = *calls + 1;
    return n < 2 ? n : fibonacci(calls, n - 1) + fibonacci(calls, n - 2);
}

} // namespace

int main(int argc, char **argv)
{
    int evaluations = argc > 1 ? std::atoi(argv[1]) : 100;
    std::vector<Owned> trees;
    for (int i = 0; i < 16; i++)
        trees.push_back(random_tree(8));
    std::uint64_t sum = 0;
    volatile unsigned calls = 0;
    for (int i = 0; i < evaluations; i++) {
        for (const Owned &tree : trees)
            sum = sum * 31 + tree->evaluate(i);
        sum += fibonacci(&calls, 12 + i % 4);
    }
    std::printf("virtual_calls %d %016llx %u\n", evaluations,
                static_cast<unsigned long long>(sum), static_cast<unsigned>(calls));
    return 0;
}
