// What C++ adds to frames: exceptions and where they land, destructors, virtual calls, closures.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define APART __attribute__((noinline))

struct Counted {
    static int alive;
    std::string name;
    explicit Counted(std::string own) : name(std::move(own)) { alive++; }
    ~Counted() { alive--; }
    Counted(const Counted &other) : name(other.name) { alive++; }
};
int Counted::alive = 0;

struct Shape {
    virtual double area(double scale) const = 0;
    virtual ~Shape() = default;
};
struct Square : Shape {
    double side;
    explicit Square(double own) : side(own) {}
    APART double area(double scale) const override { return side * side * scale; }
};
struct Row : Shape {
    std::vector<std::unique_ptr<Shape>> parts;
    APART double area(double scale) const override {
        double sum = 0;
        for (const auto &part : parts)
            sum += part->area(scale);
        return sum;
    }
};

APART int fails(int depth) {
    Counted own("depth " + std::to_string(depth));
    if (depth == 0)
        throw std::runtime_error(own.name);
    return fails(depth - 1) + static_cast<int>(own.name.size());
}

APART int catches(int depth) {
    try {
        return fails(depth);
    } catch (const std::logic_error &) {
        return -1;
    } catch (const std::exception &error) {
        Counted behind(error.what());
        return static_cast<int>(behind.name.size());
    }
}

APART void passes_on(int depth) {
    Counted one("one"), other("other");
    try {
        catches(depth);
        fails(depth);
    } catch (...) {
        one.name += other.name;
        throw;
    }
}

APART long closures(long count) {
    std::vector<std::function<long(long)>> all;
    for (long i = 0; i < count; i++)
        all.push_back([i, &all](long value) { return value * i + static_cast<long>(all.size()); });
    long sum = 0;
    for (auto &one : all)
        sum += one(sum & 15);
    return sum;
}

int main(int count, char **) {
    int caught = 0;
    try {
        passes_on(count + 3);
    } catch (const std::exception &) {
        caught = 1;
    }
    Row row;
    for (int i = 0; i < count + 5; i++)
        row.parts.push_back(std::make_unique<Square>(i));
    std::map<std::string, int> names;
    for (int i = 0; i < 50; i++)
        names["name " + std::to_string(i * 7 % 50)] += i;
    std::vector<std::string> sorted;
    for (const auto &entry : names)
        sorted.push_back(entry.first);
    std::sort(sorted.begin(), sorted.end(), [](const auto &one, const auto &other) {
        return one.size() < other.size() || (one.size() == other.size() && other < one);
    });
    std::printf("%d %d %.1f %ld %s\n", caught, Counted::alive, row.area(1.5), closures(count + 4),
                sorted.front().c_str());
    return 0;
}
