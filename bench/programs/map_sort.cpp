// Balanced trees, strings and sorting from the standard library: pointer chasing,
// allocation and unpredictable branches. Argument: number of rounds.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
    std::uint64_t state = 2463534242u, sum = 0;
    auto next = [&state] {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
    };
    for (int round = 0; round < rounds; round++) {
        std::map<std::uint64_t, std::uint32_t> by_number;
        std::map<std::string, std::uint32_t> by_name;
        std::vector<std::pair<std::uint64_t, std::string>> rows;
        for (std::uint32_t i = 0; i < 40000; i++) {
            std::uint64_t number = next() % 1000000;
            std::string name = "item-" + std::to_string(number % 5000);
            by_number[number] += i;
            by_name[name]++;
            rows.emplace_back(number, std::move(name));
        }
        std::sort(rows.begin(), rows.end(), [](const auto &left, const auto &right) {
            return left.second != right.second ? left.second < right.second
                                               : left.first < right.first;
        });
        for (std::size_t i = 0; i < rows.size(); i += 7)
            sum = sum * 31 + rows[i].first + by_number[rows[i].first];
        for (const auto &[name, count] : by_name)
            sum = sum * 33 + name.size() * count;
    }
    std::printf("map_sort %d %016llx\n", rounds, static_cast<unsigned long long>(sum));
    return 0;
}
