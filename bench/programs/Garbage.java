// Garbage of all ages in several threads, virtual calls, boxed numbers and strings: the
// collector moves, the compilers compile, and threads stop at safepoints. Arguments: number
// of threads, and of rounds of each.
import java.util.*;
import java.util.concurrent.*;

public final class Garbage {
    interface Shape { double area(); }
    record Circle(double radius) implements Shape { public double area() { return 3 * radius * radius; } }
    record Square(double side) implements Shape { public double area() { return side * side; } }
    record Frame(Shape inner, double edge) implements Shape { public double area() { return inner.area() + edge; } }

    static long round(int seed, List<Object> survivors) {
        Random random = new Random(seed);
        Map<Integer, List<Shape>> groups = new HashMap<>();
        for (int i = 0; i < 20000; i++) {
            Shape shape = random.nextBoolean() ? new Circle(random.nextInt(9)) : new Square(random.nextInt(9));
            if (random.nextInt(3) == 0) shape = new Frame(shape, i % 7);
            groups.computeIfAbsent(random.nextInt(500), key -> new ArrayList<>()).add(shape);
        }
        double area = 0;
        for (List<Shape> group : groups.values()) for (Shape shape : group) area += shape.area();
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 3000; i++) text.append(Integer.toString(i * seed)).append(' ');
        String[] words = text.toString().split(" ");
        Arrays.sort(words);
        survivors.add(words);
        if (survivors.size() > 40) survivors.subList(0, 20).clear();
        return (long) area + words[words.length / 2].hashCode();
    }

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]), rounds = Integer.parseInt(arguments[1]);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<Long>> results = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int first = thread * rounds;
            results.add(pool.submit(() -> {
                List<Object> survivors = new ArrayList<>();
                long sum = 0;
                for (int n = 0; n < rounds; n++) sum += round(first + n, survivors);
                return sum;
            }));
        }
        long sum = 0;
        for (Future<Long> result : results) sum += result.get();
        pool.shutdown();
        System.out.println("Garbage " + sum);
    }
}
