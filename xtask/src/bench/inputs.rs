//! Generated inputs: the same bytes on every machine, made once.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A kind of generated file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Sentences of made-up words, some frequent, with numbers; the amount is in millions
    /// of bytes.
    Text,
    /// Lines of a number and two words; the amount is in thousands of lines.
    Rows,
    /// C++ that instantiates much of the standard library; the amount is in functions.
    CppSource,
    /// Statements for SQLite; the amount is in thousands of rows.
    SqlScript,
    /// Java with much for the compiler to infer; the amount is in classes.
    JavaSource,
}

/// The path of a generated file, which is made if it is not there yet.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn generated(input: Input, amount: u32, directory: &Path) -> anyhow::Result<PathBuf> {
    let name = match input {
        Input::Text => format!("text-{amount}.txt"),
        Input::Rows => format!("rows-{amount}.txt"),
        Input::CppSource => format!("templates-{amount}.cpp"),
        Input::SqlScript => format!("statements-{amount}.sql"),
        Input::JavaSource => format!("classes-{amount}.java"),
    };
    let path = directory.join(name);
    if !path.exists() {
        let content = content(input, amount as usize);
        // Under another name first, so that an interrupted run leaves no half file.
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, content)
            .and_then(|()| std::fs::rename(&unfinished, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(path)
}

fn content(input: Input, amount: usize) -> String {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    match input {
        Input::Text => text(amount * 1_000_000, &mut random),
        Input::Rows => rows(amount * 1000, &mut random),
        Input::CppSource => cpp_source(amount),
        Input::SqlScript => sql_script(amount * 1000, &mut random),
        Input::JavaSource => java_source(amount),
    }
}

/// Marsaglia's xorshift (Journal of Statistical Software 8(14), 2003), 64 bits.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// Small results are the most likely ones, as with the words of a language.
    fn skewed_below(&mut self, bound: usize) -> usize {
        let narrowed = self.below(bound) + 1;
        self.below(narrowed)
    }
}

fn vocabulary(count: usize, random: &mut Random) -> Vec<String> {
    const SYLLABLES: [&str; 24] = [
        "ba", "con", "der", "e", "fi", "gra", "ho", "in", "ka", "lo", "men", "no", "o", "per",
        "qui", "ra", "sta", "ti", "ur", "ver", "wa", "xi", "yo", "zen",
    ];
    (0..count)
        .map(|_| {
            (0..1 + random.below(4))
                .map(|_| SYLLABLES[random.below(24)])
                .collect()
        })
        .collect()
}

fn text(bytes: usize, random: &mut Random) -> String {
    let words = vocabulary(5000, random);
    let mut text = String::with_capacity(bytes + 128);
    while text.len() < bytes {
        for _ in 0..4 + random.below(12) {
            text.push_str(&words[random.skewed_below(words.len())]);
            text.push_str(match random.below(12) {
                0 => ", ",
                1 => ". ",
                _ => " ",
            });
        }
        if random.below(3) == 0 {
            let _ = write!(text, "{}", random.below(100_000));
        }
        text.push('\n');
    }
    text
}

fn rows(count: usize, random: &mut Random) -> String {
    let words = vocabulary(20_000, random);
    let mut text = String::with_capacity(count * 28);
    for _ in 0..count {
        let (first, second) = (random.skewed_below(words.len()), random.below(words.len()));
        let number = random.below(10_000_000);
        let _ = writeln!(text, "{number} {} {}", words[first], words[second]);
    }
    text
}

fn cpp_source(functions: usize) -> String {
    let mut text = String::from(
        "#include <algorithm>\n#include <functional>\n#include <map>\n#include <memory>\n\
         #include <numeric>\n#include <string>\n#include <tuple>\n#include <unordered_map>\n\
         #include <variant>\n#include <vector>\n\n\
         template <int N> struct Tag { int value = N; std::string text = std::to_string(N); };\n\n",
    );
    for n in 0..functions {
        let _ = write!(
            text,
            "long work{n}(const std::vector<int> &input) {{
    std::map<std::pair<int, std::string>, std::vector<Tag<{n}>>> groups;
    std::unordered_map<std::string, std::function<long(long)>> steps;
    std::variant<int, std::string, Tag<{n}>> last = 0;
    for (int item : input) {{
        groups[{{item % {modulus}, std::to_string(item)}}].push_back(Tag<{n}>{{item}});
        steps[std::to_string(item % 7)] = [item](long x) {{ return x * item + {n}; }};
        if (item % 3 == 0) last = std::to_string(item); else last = Tag<{n}>{{item}};
    }}
    std::vector<std::tuple<long, std::string, std::unique_ptr<Tag<{n}>>>> sorted;
    for (auto &[key, tags] : groups)
        for (auto &tag : tags)
            sorted.emplace_back(key.first, key.second, std::make_unique<Tag<{n}>>(tag));
    std::stable_sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) {{
        return std::tie(std::get<1>(a), std::get<0>(a)) < std::tie(std::get<1>(b), std::get<0>(b)); }});
    long sum = std::accumulate(sorted.begin(), sorted.end(), 0L, [&](long so_far, auto &row) {{
        auto step = steps.find(std::to_string(std::get<0>(row) % 7));
        return step == steps.end() ? so_far : step->second(so_far) % 1000003; }});
    return sum + std::visit([](auto &&value) {{ return (long)sizeof(value); }}, last);
}}

",
            modulus = n % 13 + 2,
        );
    }
    text
}

fn java_source(classes: usize) -> String {
    let mut text = String::from(
        "import java.util.*;\nimport java.util.function.*;\nimport java.util.stream.*;\n\n",
    );
    for n in 0..classes {
        let _ = write!(
            text,
            "final class Work{n} {{
    enum Kind {{ FIRST, SECOND, THIRD }}
    record Item(String name, int weight, Kind kind) {{ Item {{ Objects.requireNonNull(name); }} }}
    interface Step<T, R> {{
        R apply(T value) throws Exception;
        default <S> Step<T, S> then(Step<? super R, ? extends S> next) {{
            return value -> next.apply(apply(value));
        }}
    }}
    private final Map<Kind, List<Item>> groups = new EnumMap<>(Kind.class);
    void add(String name, int weight) {{
        Kind kind = switch (weight % 3) {{
            case 0 -> Kind.FIRST; case 1 -> Kind.SECOND; default -> Kind.THIRD; }};
        groups.computeIfAbsent(kind, key -> new ArrayList<>()).add(new Item(name + {n}, weight, kind));
    }}
    Map<Boolean, Map<Kind, Double>> means(int limit) {{
        return groups.values().stream().flatMap(List::stream)
            .collect(Collectors.partitioningBy(item -> item.weight() > limit + {n},
                Collectors.groupingBy(Item::kind, TreeMap::new,
                    Collectors.averagingInt(Item::weight))));
    }}
    String text() throws Exception {{
        Step<Integer, String> step =
            ((Step<Integer, Long>) value -> value * {n}L).then(value -> \"step \" + value);
        StringBuilder text = new StringBuilder();
        for (var entry : groups.entrySet()) {{
            try {{ text.append(entry.getKey()).append(step.apply(entry.getValue().size())); }}
            catch (IllegalStateException | ArithmeticException error) {{ text.append(error.getMessage()); }}
        }}
        Supplier<Stream<String>> names = () -> groups.values().stream().flatMap(List::stream)
            .map(Item::name).sorted(Comparator.comparing(String::length)
                .thenComparing(Comparator.reverseOrder()));
        return names.get().collect(Collectors.joining(\", \", \"[\", \"]\")) + text;
    }}
}}

"
        );
    }
    text
}

fn sql_script(rows: usize, random: &mut Random) -> String {
    let words = vocabulary(2000, random);
    let mut text = String::from(
        "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, class INTEGER, weight REAL);\n\
         CREATE TABLE sale(item INTEGER, place TEXT, amount INTEGER);\nBEGIN;\n",
    );
    for id in 0..rows {
        let name = &words[random.skewed_below(words.len())];
        let (class, weight) = (random.below(100), random.below(100_000));
        let _ = writeln!(
            text,
            "INSERT INTO item VALUES({id},'{name}-{id}',{class},{weight}/7.0);"
        );
        let place = &words[random.below(200)];
        let (item, amount) = (random.below(rows), random.below(50));
        let _ = writeln!(text, "INSERT INTO sale VALUES({item},'{place}',{amount});");
    }
    text.push_str(
        "COMMIT;\nCREATE INDEX sale_item ON sale(item);\nCREATE INDEX item_name ON item(name);\n",
    );
    for query in 0..rows / 100 {
        let (low, class) = (random.below(rows), random.below(100));
        let _ = writeln!(
            text,
            "SELECT count(*), round(avg(weight),3) FROM item WHERE id BETWEEN {low} AND {high};\n\
             SELECT max(name) FROM item WHERE name LIKE '{word}%' AND class < {class};\n\
             UPDATE item SET weight = weight + 1 WHERE id % 1000 = {remainder};",
            high = low + rows / 100,
            word = words[query % words.len()],
            remainder = query % 1000,
        );
    }
    text.push_str(
        "SELECT place, sum(amount * class), count(DISTINCT item) FROM sale JOIN item \
         ON item.id = sale.item GROUP BY place ORDER BY 2 DESC, 1 LIMIT 10;\n\
         DELETE FROM sale WHERE amount < 10;\n\
         SELECT class, round(sum(weight), 2) FROM item WHERE id IN (SELECT item FROM sale) \
         GROUP BY class ORDER BY class;\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inputs must never change unnoticed: results would no longer compare.
    #[test]
    fn contents_are_the_same_everywhere() {
        let hash = |input| {
            content(input, 1)
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
                })
        };
        let hashes = [Input::Text, Input::Rows, Input::CppSource, Input::SqlScript].map(hash);
        let expected = [
            0xc2f9_4dc1_768a_298f,
            0x2510_db00_f650_40c8,
            0xd890_e4bc_f54d_6b77,
            0xb0aa_2b4d_40b8_1a1d,
        ];
        assert_eq!(hashes, expected, "{hashes:#x?}");
    }
}
