// What C++ adds: functions in classes and namespaces, constructors, templates, exceptions.
// counts: 5 function body risky
// counts: 1 function body trail
// counts: 1 function body plain
// counts: 5 function body get
// counts: 0 function body square
// counts: 0 function body at_once
// counts: 12 function body touch
// counts: 14 sequential loop
// counts: 2 omp loop
// counts: 2 parallel
#include <cstdlib>
#include <stdexcept>
#include <vector>
namespace deep { namespace er {
template <typename T> struct Box {
    T value;
    Box(T v) : value{v}, other(v) { touch(); }
    ~Box() noexcept { touch(); }
    T get() const { if (value < 0) abort(); return value; }
    void touch() { for (int i = 0; i < 2; i++) other += i; }
    Box &operator+=(const Box &o) { value += o.value; return *this; }
    bool operator()(int x) const { return x > 0; }

    T other;
};
constexpr int square(int x) { return x * x; }
} }
int at_once(int x) { return x; }
extern "C" { int plain(int x) { if (x < 0) abort(); return at_once(x); } }
int risky(int x) { if (x > 2) throw std::runtime_error("no"); return x; }
auto trail(int x) -> int { auto f = [&](int y) { return x + y; }; return f(1); }
int main()
{
    deep::er::Box<int> a(1), b{2};
    a += b;
    std::vector<int> v(3);
    for (auto &e : v) e = deep::er::square(3);
    int n = 0;
    for (int i = 0; i < 5; i++) try { n += risky(i); } catch (const std::exception &e) { n += 10; }
    int total = 0;
#pragma omp parallel for num_threads(2) reduction(+ : total)
    for (int i = 0; i < 4; i++) {
        deep::er::Box<int> box(i);
        total += box.get();
    }
    if (trail(1) + plain(2) + a.get() + n + v[0] + total != 2 + 2 + 3 + 23 + 9 + 6) abort();
    return 0;
}
