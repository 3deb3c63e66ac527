// iostream with formats and locales, string streams, maps, sorting, regular expressions,
// virtual calls and dynamic casts.
// flags: -O2
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <unordered_map>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};
struct Square : Shape {
    double side;
    explicit Square(double side) : side(side) {}
    double area() const override { return side * side; }
};
struct Circle : virtual Shape {
    double radius;
    explicit Circle(double radius) : radius(radius) {}
    double area() const override { return 3.14159265358979 * radius * radius; }
};

int main() {
    std::map<std::string, int> counts;
    std::unordered_map<int, std::string> names;
    std::istringstream words("the quick brown fox jumps over the lazy dog and the other fox");
    for (std::string word; words >> word;)
        counts[word]++;
    for (const auto &[word, count] : counts)
        names[count] += word + " ";
    for (int count = 1; count <= 3; count++)
        std::cout << count << ": " << names[count] << '\n';

    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 1; i < 20; i++) {
        if (i % 3)
            shapes.push_back(std::make_unique<Square>(i * 7 % 11));
        else
            shapes.push_back(std::make_unique<Circle>(i));
    }
    std::sort(shapes.begin(), shapes.end(),
              [](auto &a, auto &b) { return a->area() < b->area(); });
    int circles = 0;
    for (auto &shape : shapes)
        circles += dynamic_cast<Circle *>(shape.get()) != nullptr;
    std::cout << std::fixed << std::setprecision(3) << shapes.back()->area() << ' ' << circles << ' '
              << std::hex << std::showbase << 255 << std::endl;
    std::regex date("(\\d{4})-(\\d\\d)");
    std::cout << std::regex_replace(std::string("on 2024-05 and 1999-12"), date, "$2/$1") << '\n';
}
